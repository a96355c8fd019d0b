"""The engine as others see it: submit token ids, iterate over outputs. The model runs in a thread of its own."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from radixway.config.engine import EngineConfig
from radixway.engine.request import Output, SamplingParams, TextStream

TextFactory = Callable[[SamplingParams], TextStream]
"""Makes the `TextStream` of a request; the engine asks for one per request."""

Progress = Callable[[str, float], None]
"""Told (what is being done, share done in [0, 1]) while a model loads."""


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


class Generation:
    """The outputs of one request, as an async iterator; `aclose()` (or cancelling the consumer) aborts it."""

    request_id: str

    def __aiter__(self) -> AsyncIterator[Output]:
        raise NotImplementedError

    async def __anext__(self) -> Output:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop generating and free the pages now. Does nothing when the request has finished."""
        raise NotImplementedError


class Engine:
    """Loads the model when made (blocking: seconds; `progress` is told), runs between `start()` and `stop()`.

    `submit`, `abort`, `flush_cache` and `stats` are cheap and may be called from any thread; a `Generation` belongs to
    the event loop it was submitted from.
    """

    model_info: ModelInfo

    def __init__(
        self, config: EngineConfig, *, text: TextFactory | None = None, progress: Progress | None = None
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Start the step loop's thread."""
        raise NotImplementedError

    def stop(self) -> None:
        """Abort what runs, end the thread and wait for it. Safe to call twice."""
        raise NotImplementedError

    def submit(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request_id: str | None = None,
        namespace: str = "",
        priority: int = 0,
    ) -> Generation:
        """Queue one request; must be called with a running event loop.

        Raises `ContextTooLong` or another `InvalidRequest` (4xx), `QueueFull` (429) or `EngineStopped` (503).
        """
        raise NotImplementedError

    def abort(self, request_id: str) -> bool:
        """End a request now; its stream gets a last output with finish `abort`. False if there is none."""
        raise NotImplementedError

    def flush_cache(self) -> bool:
        """Drop every cached prefix. False (and nothing dropped) while requests run or wait."""
        raise NotImplementedError

    def stats(self) -> EngineStats:
        raise NotImplementedError
