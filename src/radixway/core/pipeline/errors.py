"""Errors that end a request on its way through the gateway."""

from typing import Literal

from radixway.core.http import HttpError
from radixway.core.pipeline.reply import Reply

FailureReason = Literal["unreachable", "disconnected", "unavailable", "truncated", "too_large"]
"""Why a worker failed a request: no connection, connection lost, its own status (429, 502, 503, 508), an
incomplete answer, or one that is larger than allowed."""


class GatewayError(HttpError):
    """A request that the gateway cannot answer."""


class BadRequest(GatewayError):
    """The client's mistake; `param` names the field."""

    status = 400
    code = "invalid_request"


class UnauthorizedError(GatewayError):
    """The call needs a key that it did not carry."""

    status = 401
    code = "unauthorized"


class ForbiddenError(GatewayError):
    """The caller is known, and may not do this."""

    status = 403
    code = "forbidden"


class SubjectErasedError(GatewayError):
    """The data of the request's user or tenant were erased before anything of it was kept."""

    status = 409
    code = "erased"

    def __init__(self) -> None:
        super().__init__("the data of its user or tenant were erased while this request came in")


class ModelNotServedError(GatewayError):
    """No worker serves the requested model, or none that the tenant may use."""

    status = 404
    code = "model_not_found"
    param = "model"

    def __init__(self, model: str) -> None:
        super().__init__(f"no worker serves the model {model!r}")


class NoWorkersError(GatewayError):
    """No worker can answer now; one may later."""

    status = 503
    quotes = False
    code = "no_workers"
    retry_after_s = 1


class WeightsTooOldError(NoWorkersError):
    """Workers can answer, but not with weights as new as the request wants them."""

    code = "weights_too_old"


RefusalReason = Literal["queue_full", "queue_timeout", "ttft_unreachable"]


class OverloadedError(GatewayError):
    """Workers can answer, but not this request in time: the code says why."""

    status = 429
    quotes = False

    def __init__(self, reason: RefusalReason, message: str, retry_after_s: int) -> None:
        super().__init__(message, code=reason, retry_after_s=retry_after_s)
        self.reason: RefusalReason = reason


class LimitReachedError(GatewayError):
    """The tenant has used what it may: the code names the limit."""

    status = 429
    quotes = False

    def __init__(self, limit: str, message: str, retry_after_s: int) -> None:
        super().__init__(message, code=limit, retry_after_s=max(retry_after_s, 1))


class WorkerNotFoundError(GatewayError):
    """The call names a worker that was never added."""

    status = 404
    code = "worker_not_found"
    param = "url"


class WorkerFailedError(GatewayError):
    """A worker was not reached, broke off before the first byte of its answer, or replied that it cannot."""

    status = 502
    quotes = False
    code = "worker_failed"
    retry_after_s = 1

    def __init__(self, worker: str, reason: FailureReason, detail: str, reply: Reply | None = None) -> None:
        super().__init__(f"worker {worker} failed before it answered ({reason}): {detail}")
        self.worker = worker
        self.reason: FailureReason = reason
        self.reply = reply
        """The worker's own reply, for the client when no other worker can answer either."""

    @property
    def is_worker_fault(self) -> bool:
        """True if the worker may be at fault, so that another one may do better: not if too much is asked."""
        return self.reason != "too_large"


class StreamBrokenError(GatewayError):
    """A worker broke off in the middle of a streamed answer."""

    status = 502
    quotes = False
    code = "stream_broken"

    def __init__(self, worker: str, reason: str, *, truncated: bool = False) -> None:
        """`truncated`: the worker ended it in order, as if it were whole."""
        super().__init__(f"worker {worker} broke off in the middle of its answer: {reason}")
        self.reason = reason
        self.truncated = truncated


class DeadlineExceededError(GatewayError):
    """The request took longer than it was allowed to."""

    status = 504
    quotes = False
    code = "deadline_exceeded"
