"""Reading JSON bodies into structs: unknown fields are ignored, errors name the field."""

import re
from typing import TypeVar

import msgspec

from radixway.engine.server.errors import ApiError

T = TypeVar("T")

_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(?P<field>[^`]*)`$")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")


def read_json(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    """Decode a body. Raises ApiError (400): malformed JSON, or a field of the wrong type or out of range."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(f"the body is not valid JSON: {error}", code="invalid_json") from None
    except RecursionError:
        raise ApiError("the body is nested too deeply", code="invalid_json") from None


def field_error(text: str) -> ApiError:
    """msgspec's words about a wrong value, with the field's name at the front and in `param`."""
    place = _PLACE.search(text)
    field = place["field"] if place else ""
    missing = _MISSING.search(text)
    if missing:
        field = f"{field}.{missing['field']}" if field else missing["field"]
    message = _PLACE.sub("", text).replace("`", "")
    return ApiError(f"{field}: {message}" if field else message, param=field or None, code="invalid_type")
