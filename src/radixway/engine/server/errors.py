"""What goes wrong between a client and the engine, as a status and OpenAI's error object."""

from typing import Any

import msgspec

from radixway.engine.errors import ContextTooLong, EngineError, EngineStopped, InvalidRequest, QueueFull


class ApiError(Exception):
    """An answer other than success. `param` names the field at fault, `code` is for programs."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        """The error as OpenAI writes it; SGLang's clients read the same message."""
        error: dict[str, Any] = {
            "message": str(self),
            "type": _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})


_TYPES = {429: "rate_limit_error"}


def api_error(error: EngineError, *, field_names: dict[str, str] | None = None) -> ApiError:
    """What a client is told when the engine refuses or fails; `field_names` are the protocol's own."""
    if isinstance(error, InvalidRequest):
        wire_name = (field_names or {}).get(error.field, error.field)
        code = "context_length_exceeded" if isinstance(error, ContextTooLong) else "invalid_value"
        message = str(error).replace(f"{error.field} must be", f"{wire_name} must be", 1)
        return ApiError(message, param=wire_name, code=code)
    if isinstance(error, QueueFull):
        return ApiError(str(error), status=429, code="queue_full", retry_after_s=1)
    if isinstance(error, EngineStopped):
        return ApiError(str(error), status=503, code="engine_unavailable", retry_after_s=5)
    return ApiError(str(error), status=500, code="engine_failed")
