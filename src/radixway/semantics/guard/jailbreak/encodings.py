"""Decodes what a model reads and a person does not. All functions return None for a text without any."""

import base64
import binascii
import codecs
import html
import re
import string
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from radixway.semantics.guard.jailbreak.spelling_folds import TAG_FIRST, TAG_LAST

NAMES = frozenset({"tags", "url", "entities", "escapes", "base64", "hex", "binary", "morse"})
"""Views of decoded parts, rather than of the whole text."""
_MAX_PARTS = 64
MAX_PART_CHARS = 32_768
"""Characters of an encoded part that are decoded."""

# Nothing follows what is repeated, so repetitions are possessive: else every round is kept, to be given back,
# and a megabyte of "a" takes 150.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}+(?:\r?\n[A-Za-z0-9+/_-]{4,}+)*+")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:\n]{0,2}+){8,}+")
_HEX_PAIR = re.compile(r"(?:0x|\\x)?([0-9A-Fa-f]{2})[ ,:\n]{0,2}")
_BINARY = re.compile(r"(?:[01]{8}[ ,\n]?+){6,}+")
_IN_MORSE = re.compile(r"(?:[.\-·–−]{1,6}+(?: +/? *|/)){8,}+[.\-·–−]{0,6}")
_ESCAPE = re.compile(r"\\u\{?([0-9A-Fa-f]{4,6})\}?|\\x([0-9A-Fa-f]{2})")
_TAGS = re.compile(f"[{chr(TAG_FIRST)}-{chr(TAG_LAST)}]{{4,}}")
_NESTED = re.compile(r"[0-9A-Fa-f\s]+|[A-Za-z0-9+/=\s]+|[01\s]+")
WORD = re.compile(r"[A-Za-z]+")

_TELLING = (
    "ignore", "instruction", "prompt", "disregard", "forget", "previous", "system", "password", "reveal",
    "rules", "filter", "refuse", "limits", "safety", "request", "assistant", "unfiltered", "comply",
    "pretend", "bypass", "secret", "jailbreak", "restriction", "override", "guideline", "unrestricted",
)  # fmt: skip
"""Words that show that a text is a cipher: no language has them enciphered."""
ATBASH = str.maketrans(string.ascii_letters, string.ascii_lowercase[::-1] + string.ascii_uppercase[::-1])


def _cipher_pattern(cipher: Mapping[int, str | int] | None) -> str:
    """Return an expression that finds telling words in their enciphered form, or reversed."""
    if cipher is None:
        return "|".join(word[::-1] for word in _TELLING)
    words = [word.translate(cipher) for word in _TELLING]
    return "|".join([*words, *(word[::-1] for word in words)])


_ROT13_TABLE = str.maketrans(string.ascii_letters, codecs.encode(string.ascii_letters, "rot13"))
IN_ROT13, IN_ATBASH, BACKWARDS = map(_cipher_pattern, (_ROT13_TABLE, ATBASH, None))
IN_PIG_LATIN = r"\b(?:ignoreway|instructions?way|omptpray|eviouspray|ystemsay|asswordpay|evealray|ecretsay)\b"

_TWO_LETTER_ONSETS = frozenset({"st", "tr", "pr", "th", "sh", "ch", "cr", "pl", "wh", "gr", "br", "cl", "fr"})

WORD_ORDER = (
    r"\b(?:word order|last word first|words? (?:are |is )?(?:in )?(?:reverse|the wrong way|backwards)|"
    r"wrong way round|"
    r"read (?:it|this|them) (?:from (?:the )?(?:end|right|back|last)|backwards))"
)
"""Matches remarks about reversed words."""

_MORSE_SIGNS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- "
    "-.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
_MORSE_LETTERS = dict(zip(_MORSE_SIGNS.split(), string.ascii_lowercase + string.digits, strict=True))


def read_tags(text: str) -> str | None:
    """Decode runs of tag characters in `text`: ASCII that no font shows."""
    found = _TAGS.findall(text)
    return " ".join("".join(chr(ord(each) - 0xE0000) for each in part) for part in found) or None


def read_percent(text: str) -> str | None:
    """Decode `%69%67…` in `text`, where it says other than punctuation."""
    if text.count("%") < 4:
        return None
    decoded = unquote(text, errors="replace")
    return decoded if decoded != text else None


def read_entities(text: str) -> str | None:
    """Decode `&#105;&#103;…` in `text`."""
    if text.count("&#") < 4:
        return None
    decoded = html.unescape(text)
    return decoded if decoded != text else None


def read_escapes(text: str) -> str | None:
    r"""Decode `\u0069\u0067…` and `\x69…` in `text`."""
    if text.count("\\") < 4 or ("\\u" not in text and "\\x" not in text):
        return None

    def decode_escape(escape: re.Match[str]) -> str:
        point = int(escape[1] or escape[2], 16)
        return chr(point) if point < 0x110000 else ""

    decoded = _ESCAPE.sub(decode_escape, text)
    if not decoded.isascii():  # two escapes may be one character; half of one is none
        decoded = decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return decoded if decoded != text else None


def read_base64(text: str) -> str | None:
    """Decode runs of 16 or more base64 letters in `text` that hold readable text."""
    return _decode_matches(text, _BASE64, _from_base64)


def read_hex(text: str) -> str | None:
    """Decode runs of eight or more hexadecimal bytes in `text`, with or without separators."""
    return _decode_matches(text, _HEX, lambda part: _as_text(bytes.fromhex("".join(_HEX_PAIR.findall(part)))))


def read_binary(text: str) -> str | None:
    """Decode runs of six or more bytes in `text` that are written as zeros and ones."""
    return _decode_matches(text, _BINARY, _from_binary)


def read_morse(text: str) -> str | None:
    """Decode runs of eight or more Morse letters in `text`."""
    return _decode_matches(text, _IN_MORSE, _from_morse)


def read_pig_latin(text: str) -> str:
    """Decode `ignoreway allway eviouspray` in `text`; words that began with consonants are guessed."""
    return WORD.sub(_from_pig_latin, text)


def _decode_matches(text: str, pattern: re.Pattern[str], decode: Callable[[str], str | None]) -> str | None:
    parts = []
    for at, found in enumerate(pattern.finditer(text)):
        if at >= _MAX_PARTS:
            break
        decoded = decode(found[0][:MAX_PART_CHARS])
        if decoded:
            parts.append(decoded)
    return "\n".join(parts) or None


def _from_base64(part: str) -> str | None:
    letters = part.replace("\n", "").replace("\r", "").replace("-", "+").replace("_", "/")
    letters = letters[: len(letters) // 4 * 4] if len(letters) % 4 == 1 else letters
    try:
        return _as_text(base64.b64decode(letters + "=" * (-len(letters) % 4)))
    except (ValueError, binascii.Error):
        return None


def _from_binary(part: str) -> str | None:
    digits = re.sub("[^01]", "", part)
    bits = len(digits) // 8 * 8
    return _as_text(int(digits[:bits], 2).to_bytes(bits // 8))


def _from_morse(part: str) -> str | None:
    plain = part.replace("·", ".").replace("–", "-").replace("−", "-").replace("/", " / ")
    text = "".join(" " if sign == "/" else _MORSE_LETTERS.get(sign, "") for sign in plain.split())
    return text if len(text) >= 8 else None


def _from_pig_latin(word: re.Match[str]) -> str:
    text = word[0]
    if text.endswith("way"):
        return text[:-3]
    stem = text.removesuffix("ay")
    if stem == text:
        return text
    onset = 2 if stem[-2:].lower() in _TWO_LETTER_ONSETS else 1
    return stem[-onset:] + stem[:-onset]


def _as_text(data: bytes) -> str | None:
    """Decode `data` if it reads like text: nearly all of it letters, spaces and punctuation."""
    for encoding in ("utf-8", "utf-16-le") if b"\0" in data else ("utf-8",):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        plain = sum(letter.isprintable() or letter in "\n\t\r" for letter in text)
        wordlike = sum(letter.isalpha() or letter == " " for letter in text)
        if text and plain >= 0.97 * len(text) and (wordlike >= 0.7 * len(text) or _NESTED.fullmatch(text)):
            return text
    return None
