"""Whether an address carries something away: words of the conversation, or what looks like a code."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from radixway.guard.answers.addresses import WebAddress

_WORD = re.compile(r"[^\W\d_]{4,}")
_NUMBER = re.compile(r"(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{5,}|\d+(?:[.,]\d+)+")
_SHORT_NUMBER = re.compile(r"(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{4,}|\d+(?:[.,]\d+)+")
"""Of pictures, which nobody has to click at."""
_CODE = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)

_URL_SAFE = str.maketrans("-_", "+/")

_PHRASE = 8
"""Letters of the conversation in a row."""
_WORDS = 2
_FREE_TEXT_WORDS = 4
_LONG_CODE = 24
_LONG_LABEL = 40


def carries_payload(address: WebAddress, said: Callable[[], str], told_before: set[str]) -> bool:
    """Whether it tells its host anything but what it wants of it.

    Text in its path is how pages are called; there, only codes that hold text count, and words in the address
    of a picture. So does a password, or a code in the host's name, which every name server on the way hears.

    `said`: the conversation, in lower case. `told_before`: words of it that the host was told by other
    addresses of the answer; those that this one tells are added.
    """
    told = f"{address.query} {address.fragment}".strip()
    if address.user or any(_is_code(label, label=True) for label in address.host.split(".")):
        return True
    if any(_holds_text(part) for part in re.split(r"[/\\.=;,]", address.path)):
        return True
    if told and (_is_free_text(told, loads=address.loads) or any(map(_is_code, _CODE.findall(told)))):
        return True
    if address.loads:
        told = f"{told} {address.path}"
    return bool(told.strip()) and _repeats_conversation(
        told.lower(), said(), told_before, loads=address.loads
    )


def _repeats_conversation(told: str, said: str, before: set[str], *, loads: bool) -> bool:
    """Words, numbers or a phrase of the conversation."""
    before |= {word for word in _WORD.findall(told) if re.search(rf"\b{word}\b", said)}
    numbers = _SHORT_NUMBER if loads else _NUMBER
    if len(before) >= _WORDS or any(number in said for number in numbers.findall(told)):
        return True
    whole = _strip_separators(said)
    values = (_strip_separators(value.partition("=")[2] or value) for value in re.split(r"[&;]", told))
    return any(len(value) >= _PHRASE and value in whole for value in values)


def _strip_separators(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _is_free_text(told: str, *, loads: bool) -> bool:
    return loads and any(len(_WORD.findall(value)) >= _FREE_TEXT_WORDS for value in told.split("&"))


def _is_code(code: str, *, label: bool = False) -> bool:
    """What nobody reads: long and mixed, or text in base64 or hexadecimal digits."""
    if _UUID.fullmatch(code):
        return False
    if _holds_text(code):
        return True
    if label:
        return len(code) >= _LONG_LABEL
    mixed = sum(any(map(test, code)) for test in (str.islower, str.isupper, str.isdigit))
    return len(code) >= _LONG_CODE and mixed >= 2  # of three kinds


def _holds_text(code: str) -> bool:
    """Whether it is some text in base64 or hexadecimal digits."""
    return any(_is_text(raw) for raw in _decoded(code))


def _decoded(code: str) -> Iterator[bytes]:
    if not _CODE.fullmatch(code):
        return
    digits = code.rstrip("=").translate(_URL_SAFE)
    for decode in (_base64, bytes.fromhex, _base32):
        with suppress(ValueError):
            yield decode(digits)


def _base64(digits: str) -> bytes:
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)


def _base32(digits: str) -> bytes:
    return base64.b32decode(digits.upper() + "=" * (-len(digits) % 8))


def _is_text(raw: bytes) -> bool:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    printable = sum(char.isalnum() or char in " .,:;=&@_-/'\"(){}[]\n" for char in text)
    return len(text) >= 6 and printable == len(text)  # short ones are text by chance
