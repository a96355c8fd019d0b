"""Sends one administrative call to many workers at once and collects the outcomes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.core.component import CannotErase, Component, Subject
from radixway.core.pipeline import WorkerFailedError
from radixway.routing import Worker, WorkerRegistry
from radixway.routing.transports.http_transport import HttpTransport

_MAX_TEXT_CHARACTERS = 2000
"""Characters kept of an answer that is not JSON."""
_HAS_NO_SUCH_CALL = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class FanOutCall:
    """A call that every worker is sent, byte for byte the same."""

    path: str
    """Path with the query."""
    body: bytes
    content_type: str = "application/json"
    via: str | None = None


@dataclass(frozen=True, slots=True)
class FanOutResult:
    """Outcome of a call at one worker."""

    status: int | None
    """None: it gave no answer."""
    answer: Any
    """Its JSON, or text; why there is none where it gave none."""

    @property
    def is_done(self) -> bool:
        """Return whether the worker reports success by its status and by `success` in its body."""
        success = self.answer.get("success") if isinstance(self.answer, dict) else None
        return self.status is not None and 200 <= self.status < 300 and success is not False

    @property
    def is_refused(self) -> bool:
        """The worker takes the call for the client's mistake."""
        return self.status is not None and 400 <= self.status < 500

    def describe(self) -> dict[str, Any]:
        """Return the fields for the client."""
        return {"done": self.is_done, "status": self.status, "answer": self.answer}


class FanOut(Component):
    """POSTs a call to workers, all at the same time. Erasing a user empties their prefix caches."""

    name = "workers"
    erasable_by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, registry: WorkerRegistry, transport: HttpTransport, timeout_s: float) -> None:
        self._registry = registry
        self._transport = transport
        self._timeout_s = timeout_s

    async def __call__(self, call: FanOutCall, workers: Sequence[Worker]) -> dict[Worker, FanOutResult]:
        """Send `call` to all `workers` at once and return each outcome; never raises for a worker."""
        outcomes = await asyncio.gather(*(self._call_worker(call, worker) for worker in workers))
        return dict(zip(workers, outcomes, strict=True))

    async def erase(self, subject: Subject) -> int:
        """Flush the prefix caches and return the number of workers; those without `/flush_cache` are skipped.

        Raises CannotErase while one is away, or busy.
        """
        outcomes = await self(FanOutCall("/flush_cache", b""), tuple(self._registry))
        able = {worker: each for worker, each in outcomes.items() if each.status not in _HAS_NO_SUCH_CALL}
        left = [worker.name for worker, outcome in able.items() if not outcome.is_done]
        if left:
            raise CannotErase(f"not yet: {', '.join(left)}")
        return len(able)

    async def _call_worker(self, call: FanOutCall, worker: Worker) -> FanOutResult:
        try:
            status, _, body = await self._transport.call_worker(
                worker,
                "POST",
                call.path,
                call.body,
                via=call.via,
                content_type=call.content_type,
                timeout_s=self._timeout_s,
            )
        except WorkerFailedError as failure:
            return FanOutResult(None, str(failure))
        return FanOutResult(status, _decode_answer(body))


def _decode_answer(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")[:_MAX_TEXT_CHARACTERS]
