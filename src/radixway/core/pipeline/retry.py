"""Try again, elsewhere if possible, when a worker fails before the first byte of its answer."""

import asyncio

from radixway.core.pipeline.errors import NoWorkersError, WorkerFailedError
from radixway.core.pipeline.middleware import Next, Services
from radixway.core.pipeline.reply import Reply
from radixway.core.pipeline.request import Request


class Retry:
    """Gives a request whose answer has not begun to another worker, as it is.

    The dispatch prefers workers outside `request.routing.failed_workers`. Another worker is asked at once;
    where there is none left, the next round waits a little, because a worker that restarts needs a moment.
    The number of attempts is small on purpose: a request that kills workers must not reach every one of them.
    """

    def __init__(self, services: Services) -> None:
        config = services.config.pipeline.retry
        self._attempts = config.attempts
        self._backoff_s = config.backoff_s
        self._metrics = services.metrics

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next` or, after the last attempt, what the worker said, if anything."""
        failure: WorkerFailedError | None = None
        for attempt in range(self._attempts):
            if failure is not None:
                self._metrics.retries(failure.reason).inc()
                request.journal.add("retry", attempt=attempt, worker=failure.worker, reason=failure.reason)
            try:
                return await call_next(request)
            except WorkerFailedError as error:
                if not error.is_worker_fault:
                    raise
                failure = error.with_traceback(None)  # that holds this frame, and with it the request
                elsewhere = error.worker not in request.routing.failed_workers
                request.routing.failed_workers.append(error.worker)
            except NoWorkersError:
                if failure is None:
                    raise
                elsewhere = False
            if not elsewhere and attempt + 1 < self._attempts:
                await asyncio.sleep(self._backoff_s * 2**attempt)
        assert failure is not None
        if failure.reply is not None:
            return failure.reply
        try:
            raise failure
        finally:
            del failure
