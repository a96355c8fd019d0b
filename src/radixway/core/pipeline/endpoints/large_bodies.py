"""Bodies of megabytes: a long array of messages is checked in slices, a long prompt is not built at all.

One call of msgspec checks 400,000 messages in a tenth of a second, in which no thread runs. Here the array is
cut where an object ends. Whether that is within a text or a message shows when the piece is decoded: it is no
valid JSON then, and a longer one is tried.
"""

import re
from typing import TypeVar

import msgspec

from radixway.core.http import BadBodyError, field_error
from radixway.core.work_slices import WorkSlices

LARGE_BODY_BYTES = 2**18
"""From here on a body is read so; a smaller one takes 2 ms at most."""

ItemT = TypeVar("ItemT")

_PIECE_BYTES = 2**16
MANY_OBJECTS = 4096
"""Opening braces of a body that may have many messages; fewer are read in a millisecond."""
_find_object_end = re.compile(rb"\}\s*,").search
_item_place = re.compile(r"`\$\[(\d+)\]")


def check_items(
    array: msgspec.Raw,
    decoder: msgspec.json.Decoder[list[ItemT]],
    field: str,
    piece_bytes: int = _PIECE_BYTES,
) -> WorkSlices[None]:
    """Check the items of `array`, valid JSON that begins with a bracket, the value of `field`.

    Raises BadBodyError, which names the item at fault.
    """
    data = memoryview(array)
    at, last, done, size = 1, len(data) - 1, 0, piece_bytes
    while at < last:
        found = _find_object_end(data, min(at + size, last))
        end = last if found is None else found.start() + 1
        try:
            items = decoder.decode(b"".join((b"[", data[at:end], b"]")))
        except msgspec.ValidationError as error:
            raise field_error(_place_item(str(error), field, done)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if end == last:
                raise BadBodyError(f"the body is not valid JSON: {error}", code="invalid_json") from None
            size *= 2
        else:
            done += len(items)
            at, size = end if found is None else found.end(), piece_bytes
        yield


def _place_item(text: str, field: str, before: int) -> str:
    """Return msgspec's message about an item of a piece, of which `before` items come before, in `field`."""
    return _item_place.sub(lambda match: f"`$.{field}[{int(match[1]) + before}]", text)
