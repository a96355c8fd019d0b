"""Everything that can end a request early. A surface turns each into its protocol's error shape."""

from __future__ import annotations

from typing import Literal

from radixway.web import BadBody

FailureReason = Literal["unreachable", "disconnected", "unavailable"]
"""Why a worker failed a request: no connection, connection lost, or its own word (502, 503)."""


class GatewayError(Exception):
    """A request that cannot be answered: an HTTP status, a code for programs, a sentence for people."""

    status = 500
    code = "internal_error"
    param: str | None = None
    """The request's field that is at fault, when one is."""
    retry_after_s: int | None = None
    """When it makes sense to try again, when it does."""


class BadRequest(GatewayError):
    """The client's mistake; `param` names the field."""

    status = 400
    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    @classmethod
    def of(cls, body: BadBody) -> BadRequest:
        """The same mistake, as an end of a request."""
        refused = cls(str(body), param=body.param)
        refused.status, refused.code = body.status, body.code
        return refused


class MethodNotAllowed(GatewayError):
    """The path exists, for other methods."""

    status = 405
    code = "method_not_allowed"


class Unauthorized(GatewayError):
    """The call needs a key that it did not carry."""

    status = 401
    code = "unauthorized"


class ModelNotFound(BadRequest):
    """No worker serves the model that was asked for."""

    status = 404
    code = "model_not_found"

    def __init__(self, model: str) -> None:
        super().__init__(f"no worker serves the model {model!r}", param="model")


class NoWorkers(GatewayError):
    """No worker can answer now; one may later."""

    status = 503
    code = "no_workers"
    retry_after_s = 1


class WorkerFailed(GatewayError):
    """A worker could not be reached or broke off before the first byte of its answer."""

    status = 502
    code = "worker_failed"
    retry_after_s = 1

    def __init__(self, worker: str, reason: FailureReason, detail: str) -> None:
        super().__init__(f"worker {worker} failed before it answered ({reason}): {detail}")
        self.worker = worker
        self.reason: FailureReason = reason


class StreamBroken(GatewayError):
    """A worker broke off in the middle of a streamed answer."""

    status = 502
    code = "stream_broken"

    def __init__(self, worker: str, reason: str) -> None:
        super().__init__(f"worker {worker} broke off in the middle of its answer: {reason}")


class DeadlineExceeded(GatewayError):
    """The request took longer than it was allowed to."""

    status = 504
    code = "deadline_exceeded"
