"""What the engine tells about itself: its load, and its model."""

from dataclasses import dataclass, field

from radixway.engine.disaggregation import TransferStats
from radixway.engine.tiers import TierStats


@dataclass(slots=True, frozen=True)
class EngineStats:
    """A snapshot of the engine's load and of what it has done since it started. Sizes are tokens."""

    running: int
    waiting: int
    kv_total: int
    kv_used: int
    """Held by running requests (a shared prefix counted once)."""
    kv_cached: int
    """In the tree and not pinned: free as soon as someone needs it."""
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were found in the cache and not computed."""
    generated_tokens: int
    requests: int
    preemptions: int
    evicted_tokens: int
    paused: bool = False
    """Nothing is computed until it is told to go on."""
    loading: int = 0
    """Requests that wait for a part of their prefix from a lower tier of the cache."""
    tiers: dict[str, TierStats] = field(default_factory=dict)
    """`device`, and `host` and `disk` where there are such."""
    remote_tokens: int = 0
    """Prompt tokens whose KV came from a prefill engine."""
    departing: int = 0
    """Finished requests whose KV has still to be sent to a decode engine."""
    transfers: TransferStats | None = None
    """KV sent by a prefill engine, or received by a decode engine."""


@dataclass(slots=True, frozen=True)
class ModelInfo:
    """What model this is, as `/get_model_info` and `/v1/models` tell it."""

    name: str
    path: str
    architecture: str
    dtype: str
    device: str
    vocab_size: int
    context_length: int
    """Most tokens of one request, prompt and answer together."""
    eos_token_ids: frozenset[int]
    parameters: int
    weight_version: str
