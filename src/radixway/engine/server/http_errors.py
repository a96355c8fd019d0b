"""The engine's errors as HTTP errors."""

import msgspec

from radixway.core.http import HttpError, ReshapedError
from radixway.engine.errors import (
    ContextLengthError,
    EngineError,
    EngineQueueFullError,
    EngineStoppedError,
    InvalidRequestError,
)


def to_http_error(error: EngineError, *, field_names: dict[str, str] | None = None) -> HttpError:
    """The HTTP error for `error`; `field_names` are the protocol's own names of the engine's fields."""
    if isinstance(error, InvalidRequestError):
        wire_name = (field_names or {}).get(error.field, error.field)
        code = "context_length_exceeded" if isinstance(error, ContextLengthError) else "invalid_value"
        message = str(error).replace(f"{error.field} must be", f"{wire_name} must be", 1)
        return HttpError(message, status=400, param=wire_name, code=code)
    if isinstance(error, EngineQueueFullError):
        return HttpError(str(error), status=429, code="queue_full", retry_after_s=1)
    if isinstance(error, EngineStoppedError):
        return HttpError(str(error), status=503, code="engine_unavailable", retry_after_s=5)
    return HttpError(str(error), status=500, code="engine_failed")


def weight_update_error(error: HttpError) -> HttpError:
    """`error` of a call that updates the weights: SGLang's clients look at `success` and `message`."""
    told = msgspec.json.decode(error.body()) | {"success": False, "message": error.client_message}
    return ReshapedError(error, msgspec.json.encode(told))
