"""Workers and requests for tests of the selector, and a clock that they move."""

from radixway.core.config import WorkerSettings
from radixway.routing import RoutingRequest, Worker


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def workers(count: int, **fields) -> list[Worker]:
    return [Worker(WorkerSettings(url=f"http://w{i}", **fields)) for i in range(count)]


def prompt(*blocks: int, tokens: int | None = None, **fields) -> RoutingRequest:
    """A prompt of these blocks, 16 tokens each, and of a few tokens more."""
    return RoutingRequest(
        tokens=len(blocks) * 16 + 4 if tokens is None else tokens,
        blocks=blocks,
        block_tokens=16,
        tokenized=True,
        **fields,
    )
