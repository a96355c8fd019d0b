"""Protocol Buffers' wire format, as far as replies to Envoy need it: messages and texts in each other.

Building a reply's message objects and serialising them costs several times as much. A field's number comes
from its message's descriptor; what is joined here is what `SerializeToString` gives.
"""

from google.protobuf.message import Message

_LENGTH_DELIMITED = 2
_SHORT = [bytes((size,)) for size in range(0x80)]


def serialize_message(message: Message) -> bytes:
    """Return `message`, serialised."""
    return bytes(message.SerializeToString())


def field_tag(message: type[Message], name: str) -> bytes:
    """Return what stands before the field `name` of `message`, which is a message, a text or bytes."""
    return _encode_varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)


def encode_field(tag: bytes, payload: bytes) -> bytes:
    """Return the field of that `tag` with what it holds, encoded: `payload`."""
    size = len(payload)
    return tag + (_SHORT[size] if size < 0x80 else _encode_varint(size)) + payload


def _encode_varint(number: int) -> bytes:
    if 0x80 <= number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    coded = bytearray()
    while number >= 0x80:
        coded.append(number & 0x7F | 0x80)
        number >>= 7
    coded.append(number)
    return bytes(coded)
