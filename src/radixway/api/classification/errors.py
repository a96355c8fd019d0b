"""Refusals of the classification API, as published: `{"error": {"code", "message", "timestamp"}}`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from radixway.core.http import BadBodyError, ClientDisconnectedError, HttpError
from radixway.core.pipeline import GatewayError


class ClassificationApiError(GatewayError):
    """A refusal; `missing` names the parts of the gateway that are not there."""

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
        fields: dict[str, Any] = {
            "code": self.code,
            "message": self.client_message,
            "timestamp": self._at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "param": self.param,
        }
        if self.missing:
            fields["missing"] = list(self.missing)
        return msgspec.json.encode({"error": fields})


@contextmanager
def translate_errors(missing_code: str | None = None) -> Iterator[None]:
    """Raise refusals as ClassificationApiError; `missing_code`: in place of the missing part's own code."""
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
    from radixway.semantics.classification import ClassifierUnavailableError, UnknownTypesError
    from radixway.semantics.encoders import EncoderBusyError, EncoderError

    if isinstance(error, ClassifierUnavailableError):
        named = missing_code or f"{error.missing.upper()}_UNAVAILABLE"
        return ClassificationApiError(str(error), status=503, code=named, missing=[error.missing])
    if isinstance(error, UnknownTypesError):
        return ClassificationApiError(str(error), param=f"options.{error.field}")
    if isinstance(error, ClientDisconnectedError):  # no client reads this
        return ClassificationApiError("the client left", status=499, code="CLIENT_GONE")
    if isinstance(error, EncoderBusyError):
        return ClassificationApiError(str(error), status=503, code="ENCODER_BUSY", retry_after_s=1)
    if isinstance(error, EncoderError):
        return ClassificationApiError(str(error), status=503, code="ENCODER_UNAVAILABLE", missing=["encoder"])
    return None


def check_text_given(text: str | None, field: str = "text") -> str:
    """Return `text`. Raises ClassificationApiError, naming `field`, unless there is something in it."""
    if text is None:
        raise ClassificationApiError(f"{field} field is required", param=field)
    if not text.strip():
        raise ClassificationApiError(f"{field} cannot be empty", param=field)
    return text


def check_texts_given(texts: Sequence[str] | None, max_texts: int, field: str = "texts") -> Sequence[str]:
    """Return `texts`. Raises ClassificationApiError unless there are 1 to `max_texts`, none of them empty."""
    if texts is None:
        raise ClassificationApiError(f"{field} field is required", param=field)
    if not texts:
        raise ClassificationApiError(f"{field} array cannot be empty", param=field)
    if len(texts) > max_texts:
        raise ClassificationApiError(
            f"{field} has {len(texts)} texts; at most {max_texts} are taken at a time "
            "(semantic.api.batch_classification.max_batch_size)",
            param=field,
        )
    for index, text in enumerate(texts):
        check_text_given(text, f"{field}[{index}]")
    return texts
