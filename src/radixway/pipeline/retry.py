"""Try again, elsewhere if possible, when a worker fails before the first byte of its answer."""

from __future__ import annotations

import asyncio

from radixway.pipeline.errors import WorkerFailed
from radixway.pipeline.middleware import Next, Services
from radixway.pipeline.reply import Reply
from radixway.pipeline.request import Request


class Retry:
    """Nothing has reached the client yet, so the request can be given to another worker as it is.

    The dispatch prefers workers that are not in `request.tried`. When all have been tried, the next round
    waits a little, because a worker that restarts needs a moment.
    """

    def __init__(self, services: Services) -> None:
        config = services.config.pipeline.retry
        self._attempts = config.attempts
        self._backoff_s = config.backoff_s
        self._metrics = services.metrics

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        for attempt in range(1, self._attempts):
            try:
                return await call_next(request)
            except WorkerFailed as failure:
                again = failure.worker in request.tried
                request.tried.append(failure.worker)
                request.journal.add("retry", attempt=attempt, worker=failure.worker, reason=failure.reason)
                self._metrics.retried(failure.reason)
                if again:
                    await asyncio.sleep(self._backoff_s * 2 ** (attempt - 1))
        return await call_next(request)
