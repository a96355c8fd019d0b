"""Sections of a vLLM-Semantic-Router `config.yaml` that other packages read, in that file's own form."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from radixway.core.config.base import ConfigSection, Share
from radixway.core.config.semantic.models import Unused


class BertModel(ConfigSection):
    """The sentence encoder."""

    model_id: str = ""
    """A directory or hub id; one that is not on this machine is replaced by `encoders.model`."""
    threshold: Share = 0.6
    """Stands in for thresholds of the cache and of tools that are not given."""
    use_cpu: Unused[bool] = True


class ClassicCache(ConfigSection):
    """`semantic_cache`."""

    enabled: bool = False
    """Answers are kept, as under `semantic_cache`, which goes before this section."""
    backend_type: Literal["memory", "milvus", "hybrid", "redis", "valkey", "qdrant"] = "memory"
    """Store of the entries."""
    similarity_threshold: Share | None = None
    """Least likeness of two questions; by default `bert_model.threshold`."""
    max_entries: int = Field(default=1000, ge=0)
    """Answers that are kept at a time."""
    ttl_seconds: int = Field(default=3600, ge=0)
    """0: they never end."""
    eviction_policy: Literal["fifo", "lru", "lfu"] = "fifo"
    """Eviction order."""
    backend_config_path: str | None = None
    """A file with Milvus' `connection` and `collection`."""
    embedding_model: Unused[str] = "bert"
    use_hnsw: Unused[bool] = False
    hnsw_m: Unused[int] = Field(default=16, ge=2)
    hnsw_ef_construction: Unused[int] = Field(default=200, ge=1)
    max_memory_entries: Unused[int | None] = Field(default=None, ge=0)


class ClientTools(ConfigSection):
    """`tools.client_tools`: long lists of tools that clients send, made shorter."""

    enabled: bool = False
    """Shorten clients' own tool lists."""
    at_least: int = Field(default=16, ge=1)
    """Lists of fewer tools stay as they are."""
    top_k: int | None = Field(default=None, ge=1)
    """By default as many as from a database."""
    wait_s: float = Field(default=0.25, ge=0)
    """How long a request waits while its tools are read for the first time; then it keeps them all."""


class ClassicTools(ConfigSection):
    """`tools`: selection where a request's `tool_choice` is `auto`."""

    enabled: bool = False
    """Select tools."""
    top_k: int = Field(default=3, ge=1)
    """How many are offered."""
    least_score: Share | None = None
    """Tools that score less are not offered; by default 0.1, or none beside a `similarity_threshold`."""
    similarity_threshold: Share | None = None
    """The published threshold, of the query's cosine with the description (or with the examples) alone."""
    tools_db_path: str | None = None
    """Path relative to the gateway's working directory."""
    categories: tuple[str, ...] = ()
    """Only tools of these categories of the database are offered; by default of all."""
    fallback_to_empty: bool = True
    """Without a good tool, send the request without any; otherwise unchanged."""
    client_tools: ClientTools = ClientTools()


class ClassicModel(ConfigSection):
    """A classifier."""

    model_id: str = ""
    """A directory on this machine; else published names are tried, then the shipped head judges."""
    use_modernbert: Unused[bool] = False
    threshold: Share = 0.7
    """What is less sure than this does not count."""
    use_cpu: Unused[bool] = True


class PromptGuard(ClassicModel):
    """`prompt_guard`."""

    enabled: bool = False
    """Attacks are blocked."""
    jailbreak_mapping_path: str | None = None
    """Its labels; by default beside the model."""


def local_model_paths(model_id: str, mapping: str | None) -> tuple[Path | None, Path | None]:
    """The directory of a model that a `config.yaml` names, and its labels, each if it is there."""
    path = Path(model_id)
    if not model_id or not path.is_dir():
        return None, None
    labels = Path(mapping) if mapping else None
    return path, labels if labels is not None and labels.is_file() else None


class CategoryModel(ClassicModel):
    """`classifier.category_model`."""

    threshold: Share = 0.6
    """A category that is less sure than this is none."""
    category_mapping_path: str | None = None
    """Its labels; by default beside the model."""


class PiiModel(ClassicModel):
    """`classifier.pii_model`."""

    pii_mapping_path: str | None = None
    """Its labels; by default beside the model."""


class McpCategoryModel(ConfigSection):
    """`classifier.mcp_category_model`: read, checked and not used; the shipped head classifies."""

    enabled: bool = False
    transport_type: Literal["stdio", "streamable-http"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    url: str | None = None
    tool_name: str | None = None
    threshold: Share = 0.6
    timeout_seconds: int = Field(default=30, ge=1)


class ClassicClassifier(ConfigSection):
    """`classifier`."""

    category_model: CategoryModel = CategoryModel()
    pii_model: PiiModel = PiiModel()
    mcp_category_model: McpCategoryModel = McpCategoryModel()


class EmbeddingModels(ConfigSection):
    """`embedding_models`: read and not used; `encoders` says what reads texts."""

    qwen3_model_path: str = ""
    gemma_model_path: str = ""
    use_cpu: bool = True


class BatchClassification(ConfigSection):
    """`api.batch_classification`."""

    max_batch_size: int = Field(default=100, ge=1)
    """Texts of a batch; more are refused."""
    concurrency_threshold: int = Field(default=5, ge=1)
    """Smaller batches are read one text after the other."""
    max_concurrency: int = Field(default=8, ge=1)
    """Texts of a batch that are read at a time."""
    metrics: dict[str, Any] = Field(default_factory=dict)
    """Read and not used; `/metrics` has its own buckets."""


class ClassicApi(ConfigSection):
    """`api`."""

    batch_classification: BatchClassification = BatchClassification()


class ClassicObservability(ConfigSection):
    """`observability`."""

    tracing: dict[str, Any] = Field(default_factory=dict)
    """Read and not used; `telemetry.tracing` has ours."""
    metrics: dict[str, Any] = Field(default_factory=dict)
    """Read and not used; metrics are always there."""


class ClassicListener(ConfigSection):
    """`listeners[]` of v0.1: read and not used; the gateway listens where `gateway` says."""

    name: str = ""
    address: str = ""
    port: int = Field(default=0, ge=0, le=65535)
    timeout: str = ""
