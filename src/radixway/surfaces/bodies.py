"""Reading JSON bodies: what the gateway must know, errors that name the field, everything else ignored."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from radixway.pipeline import BadRequest, GatewayError

T = TypeVar("T")

_PLACE = re.compile(r" - at `(?:key in )?\$\.?(?P<field>[^`]*)`$")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")


def read_json(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    """Decode a body. Raises BadRequest: malformed JSON, or a field of the wrong type or value."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def _field_error(text: str) -> BadRequest:
    place = _PLACE.search(text)
    field = place["field"] if place else ""
    missing = _MISSING.search(text)
    if missing:
        field = f"{field}.{missing['field']}" if field else missing["field"]
    message = _PLACE.sub("", text)
    return BadRequest(f"{field}: {message}" if field else message, param=field or None)


def error_json(error: GatewayError) -> bytes:
    """An error in OpenAI's shape, which SGLang's clients read too."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return msgspec.json.encode(
        {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
    )


def error_event(error: GatewayError) -> bytes:
    """The same as a server-sent event."""
    return b"data: " + error_json(error) + b"\n\n"
