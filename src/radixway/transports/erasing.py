"""Forgets what workers keep of prompts and answers: KV of their prefixes, in memory and on disk."""

from __future__ import annotations

from radixway.pipeline import CannotErase, Subject
from radixway.routing import Registry
from radixway.transports.fan_out import Call, FanOut

_HAS_NO_SUCH_CALL = frozenset({404, 405, 501})


class ErasableWorkers:
    """The workers' prefix caches as `pipeline.Erasable`. All of a cache goes; it costs time alone.

    A worker that has no `/flush_cache` is passed over.
    """

    name = "workers"
    by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, registry: Registry, fan_out: FanOut) -> None:
        self._registry = registry
        self._fan_out = fan_out

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many workers. Raises CannotErase while one is away, or busy."""
        outcomes = await self._fan_out(Call("/flush_cache", b""), tuple(self._registry))
        able = {
            worker: outcome for worker, outcome in outcomes.items() if outcome.status not in _HAS_NO_SUCH_CALL
        }
        left = [worker.name for worker, outcome in able.items() if not outcome.done]
        if left:
            raise CannotErase(f"not yet: {', '.join(left)}")
        return len(able)
