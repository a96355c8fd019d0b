"""Refusals of this surface, in its published shape: `{"error": {"code", "message", "timestamp"}}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from radixway.core.http import BadBodyError, HttpError
from radixway.core.pipeline import GatewayError


class ClassificationApiError(GatewayError):
    """A refusal; beside the published fields, `param` names the field at fault and `missing` the parts that
    are not there.
    """

    status = 400
    code = "INVALID_INPUT"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        super().__init__(message, param=param, status=status, code=code, retry_after_s=retry_after_s)
        self.missing = tuple(missing)
        self._at = datetime.now(UTC)

    def body(self) -> bytes:
        """Encode it in the published shape."""
        told: dict[str, Any] = {
            "code": self.code,
            "message": self.client_message,
            "timestamp": self._at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "param": self.param,
        }
        if self.missing:
            told["missing"] = list(self.missing)
        return msgspec.json.encode({"error": told})


@contextmanager
def translate_errors(missing_code: str | None = None) -> Iterator[None]:
    """Raises ClassificationApiError for what bodies and the room refuse. `missing_code`: in place of one that
    names the part which is not there, `PII_CLASSIFIER_UNAVAILABLE`."""
    try:
        yield
    except BadBodyError as error:
        code = "INVALID_INPUT" if error.status == 400 else "TEXT_TOO_LONG"
        raise ClassificationApiError(str(error), param=error.param, status=error.status, code=code) from None
    except HttpError:
        raise
    except Exception as error:  # noqa: BLE001 - raised again where it is no refusal
        raise _as_api_error(error, missing_code) or error from None


def _as_api_error(error: Exception, missing_code: str | None) -> ClassificationApiError | None:
    """None for what is no refusal of the room's."""
    from radixway.semantics.classification import ClassifierUnavailableError, UnknownTypesError
    from radixway.semantics.encoders import EncoderBusyError, EncoderError

    if isinstance(error, ClassifierUnavailableError):
        named = missing_code or f"{error.missing.upper()}_UNAVAILABLE"
        return ClassificationApiError(str(error), status=503, code=named, missing=[error.missing])
    if isinstance(error, UnknownTypesError):
        return ClassificationApiError(str(error), param=f"options.{error.field}")
    if isinstance(error, EncoderBusyError):
        return ClassificationApiError(str(error), status=503, code="ENCODER_BUSY", retry_after_s=1)
    if isinstance(error, EncoderError):
        return ClassificationApiError(str(error), status=503, code="ENCODER_UNAVAILABLE", missing=["encoder"])
    return None
