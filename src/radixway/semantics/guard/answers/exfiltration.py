"""Exfiltration: addresses that carry words of the conversation, or a code, to a host that nobody allowed.

Addresses begin and end as Markdown, HTML or plain text has them.
"""

import base64
import html
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote_plus

from radixway.core.config.guard import ExfiltrationConfig
from radixway.semantics.guard.answers.text_view import TextEdit, TextJudge, TextView

MAX_SCHEME_CHARS = 32
"""Characters before `://`: a scheme, maybe in HTML's entities."""

_ADDRESS_CHARACTER = r"[A-Za-z0-9&#;+.\-]"
_ADDRESS = re.compile(
    rf"{_ADDRESS_CHARACTER}{{2,{MAX_SCHEME_CHARS}}}:[/\\]{{2}}"
    rf"|(?<!{_ADDRESS_CHARACTER})(?:https?|ftp|wss?):[/\\]?(?=[\w\[])"
    r"|(?<=[(\"'=<;])[/\\]{2}(?=[\w\[])"
    rf"|(?<!{_ADDRESS_CHARACTER})www\.(?=\w)",
    re.IGNORECASE,
)
_PARTIAL_ADDRESS = re.compile(
    rf"(?:{_ADDRESS_CHARACTER}{{1,{MAX_SCHEME_CHARS}}}(?::[/\\]{{0,2}})?|(?<=[(\"'=<;])[/\\]{{1,2}})\Z"
)
_IN_TEXT = re.compile(r"[^\s<>\"`，。；、！？（）“”「」《》]*")
_AFTER_REST = r"[\s<>()\"`，。；、！？（）“”「」《》]"
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_PARTS = re.compile(
    r"(?:[\w.+\-]*:)?[/\\]*(?P<authority>[^/\\?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_LOADS = re.compile(
    r"!\[[^\[\]]{0,2000}\]\(\s*<?\Z|\bsrc(?:set)?\s*=\s*[\"']?\Z|\burl\(\s*[\"']?\Z", re.IGNORECASE
)


class WebAddress(NamedTuple):
    """The parts of an address, with percent signs and entities decoded in all but the host's names."""

    host: str
    user: str
    path: str
    query: str
    fragment: str
    loads: bool
    """Readers load it at once: a picture."""


def find_next_address(text: str, start: int) -> int | None:
    """Return where the next address from `start` on begins."""
    found = _ADDRESS.search(text, start)
    return None if found is None else found.start()


def find_partial_address(text: str, start: int) -> int:
    """Return where what may become an address begins at the end of `text`; if nothing may, its end."""
    found = _PARTIAL_ADDRESS.search(text, max(start, len(text) - MAX_SCHEME_CHARS - 3))
    return len(text) if found is None else found.start()


def find_address_end(text: str, begin: int, max_chars: int) -> tuple[int, bool]:
    """Return where the address from `begin` on ends within `max_chars` characters, and whether that is sure.

    It is not while more of it may follow.
    """
    closing = _closing_pattern(text, begin)
    limit = min(len(text), begin + max_chars)
    if closing is not None:
        found = re.compile(closing).search(text, begin, limit)
        return (limit, False) if found is None else (found.start(), True)
    end = _IN_TEXT.match(text, begin, limit).end()  # type: ignore[union-attr]
    depth = 0
    for at in range(begin, end):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth < 0:
            return at, True
    return end, end < limit


def find_long_address_end(text: str, begin: int, at: int) -> tuple[int, bool]:
    """Return the same from `at` on, inside an address that is longer than anybody waits for."""
    closing = _closing_pattern(text, begin)
    found = re.compile(_AFTER_REST if closing is None else closing).search(text, at)
    return (len(text), False) if found is None else (found.start(), True)


def parse_address(text: str, begin: int, end: int) -> WebAddress:
    """Parse the address at `[begin, end)` as browsers do: with entities, backslashes, invisible signs."""
    spelled = _INVISIBLE.sub("", html.unescape(text[begin:end])).rstrip(".,;:!?*_'")
    parts = _PARTS.fullmatch(spelled)
    assert parts is not None  # every string has these parts
    user, _, host = parts["authority"].rpartition("@")
    host = re.sub(r":\d*\Z", "", unquote_plus(host)).lower().rstrip(".")
    loads = _LOADS.search(text, max(0, begin - 2100), begin) is not None
    path, query, fragment = (unquote_plus(parts[name] or "") for name in ("path", "query", "fragment"))
    return WebAddress(host, unquote_plus(user), path, query, fragment, loads)


def extract_hosts(text: str) -> set[str]:
    """Return every host that `text` names: in addresses, and by itself."""
    named = {match[0].lower() for match in _BARE_HOST.finditer(text)}
    begin = find_next_address(text, 0)
    while begin is not None:
        end, _ = find_address_end(text, begin, len(text))
        named.add(parse_address(text, begin, end).host)
        begin = find_next_address(text, max(end, begin + 1))
    return named


_BARE_HOST = re.compile(r"(?<![\w@.\-])(?:[a-z0-9\-]{1,63}\.)+[a-z]{2,24}(?![\w\-])", re.IGNORECASE)


def _closing_pattern(text: str, begin: int) -> str | None:
    """Return a pattern of what ends an address that stands between signs which let it have spaces."""
    before = text[max(0, begin - 2) : begin]
    if before.endswith(("(<", "=<")):
        return r"[>\n]"
    return before[-1] if before in ('="', "='") else None  # in there browsers leave line breaks out


_WORD = re.compile(r"[^\W\d_]{4,}")
_NUMBER = re.compile(r"(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{5,}|\d+(?:[.,]\d+)+")
_SHORT_NUMBER = re.compile(r"(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{4,}|\d+(?:[.,]\d+)+")
"""Short numbers that count in pictures, which load without a click."""
_CODE = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)

_URL_SAFE = str.maketrans("-_", "+/")
_DECODERS: tuple[Callable[[str], bytes], ...] = (
    lambda digits: base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True),
    bytes.fromhex,
    lambda digits: base64.b32decode(digits.upper() + "=" * (-len(digits) % 8)),
)

_PHRASE = 8
"""Consecutive letters of the conversation."""
_WORDS = 2
_FREE_TEXT_WORDS = 4
_MIN_CODE_CHARS = 24
_MIN_LABEL_CHARS = 40


def carries_payload(address: WebAddress, conversation: Callable[[], str], known_words: set[str]) -> bool:
    """Return whether `address` tells its host anything but what it wants of it.

    Text in its path is how pages are called; there, only codes that hold text count, and words in the address
    of a picture. So does a password, or a code in the host's name, which every name server on the way hears.

    `conversation`: in lower case. `known_words`: words of it that other addresses of the answer carry to the
    host; those that this one carries are added.
    """
    payload = f"{address.query} {address.fragment}".strip()
    if address.user or any(_is_code(label, is_label=True) for label in address.host.split(".")):
        return True
    if any(_holds_text(part) for part in re.split(r"[/\\.=;,]", address.path)):
        return True
    if address.loads and any(len(_WORD.findall(value)) >= _FREE_TEXT_WORDS for value in payload.split("&")):
        return True
    if any(map(_is_code, _CODE.findall(payload))):
        return True
    if address.loads:
        payload = f"{payload} {address.path}"
    return bool(payload.strip()) and _repeats_conversation(
        payload.lower(), conversation(), known_words, loads=address.loads
    )


def _repeats_conversation(payload: str, conversation: str, known_words: set[str], *, loads: bool) -> bool:
    known_words |= {word for word in _WORD.findall(payload) if re.search(rf"\b{word}\b", conversation)}
    numbers = _SHORT_NUMBER if loads else _NUMBER
    if len(known_words) >= _WORDS or any(number in conversation for number in numbers.findall(payload)):
        return True
    compact = _strip_separators(conversation)
    values = (_strip_separators(value.partition("=")[2] or value) for value in re.split(r"[&;]", payload))
    return any(len(value) >= _PHRASE and value in compact for value in values)


def _strip_separators(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _is_code(code: str, *, is_label: bool = False) -> bool:
    """Return whether `code` is unreadable: long and mixed, or text in base64 or hexadecimal digits."""
    if _UUID.fullmatch(code):
        return False
    if _holds_text(code):
        return True
    if is_label:
        return len(code) >= _MIN_LABEL_CHARS
    mixed = sum(any(map(test, code)) for test in (str.islower, str.isupper, str.isdigit))
    return len(code) >= _MIN_CODE_CHARS and mixed >= 2  # of three kinds


def _holds_text(code: str) -> bool:
    """Return whether `code` is some text in base64, base32 or hexadecimal digits."""
    if not _CODE.fullmatch(code):
        return False
    digits = code.rstrip("=").translate(_URL_SAFE)
    for decode in _DECODERS:
        try:
            text = decode(digits).decode()
        except ValueError:
            continue
        printable = all(char.isalnum() or char in " .,:;=&@_-/'\"(){}[]\n" for char in text)
        if len(text) >= 6 and printable:  # short ones are text by chance
            return True
    return False


REMOVED = "#link-removed"
"""Stands in place of an address; it leads nowhere and loads nothing."""


class ExfiltrationJudge(TextJudge):
    """Reads every address of one text. One that is longer than `hold_back` and leads to an unknown host is
    taken for one that carries something."""

    rule = "answers.exfiltration"

    def __init__(
        self,
        section: ExfiltrationConfig,
        allows: Callable[[str], bool],
        conversation: Callable[[], str],
        hold_back: int,
    ) -> None:
        """`allows`: whether a host may be told anything. `conversation`: the request's texts, lower case."""
        super().__init__(section.action)
        self._allows = allows
        self._conversation = conversation
        self._hold_back = hold_back
        self._at = 0
        """All addresses before it are judged."""
        self._removing: int | None = None
        """Start of the address being removed, until it ends."""
        self._words_by_host: dict[str, set[str]] = {}
        """By host, words of the conversation that it was given."""

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        edits: list[TextEdit] = []
        while self.stop is None and self._judge_next_address(view, edits, last=last):
            pass
        holds = self.action in ("strip", "block")
        self.safe = self._at if holds and not last else len(view.text)
        return edits

    def _judge_next_address(self, view: TextView, edits: list[TextEdit], *, last: bool) -> bool:
        """Judge one address; return False if no other can be judged now."""
        text = view.text
        if self._removing is not None:
            return self._remove_rest(view, edits)
        begin = find_next_address(text, self._at)
        if begin is None:
            self._at = len(text) if last else find_partial_address(text, self._at)
            return False
        self._at = begin
        end, is_sure = _find_view_address_end(view, begin, self._hold_back)
        if not (is_sure or last or end - begin >= self._hold_back):
            return False
        if not self._is_exfiltration(
            view, begin, end, is_complete=is_sure or end == len(text) < begin + self._hold_back
        ):
            self._at = end if end > begin else begin + 1
            return True
        self.add_finding(view, "exfiltration", begin, end)
        if self.action == "block":
            self.stop = begin
        elif self.action == "strip":
            edits.append(TextEdit(begin, end, REMOVED))
        self._at = end
        if not is_sure:
            self._removing = begin
        return True

    def _remove_rest(self, view: TextView, edits: list[TextEdit]) -> bool:
        assert self._removing is not None
        end, is_sure = find_long_address_end(view.text, self._removing, self._at)
        if end > self._at and self.action == "strip":
            edits.append(TextEdit(self._at, end, ""))
        self._at = max(self._at, end)
        if is_sure:
            self._removing = None
        return is_sure

    def _is_exfiltration(self, view: TextView, begin: int, end: int, *, is_complete: bool) -> bool:
        address = parse_address(view.text, begin, end)
        if not address.host or self._allows(address.host):
            return False
        if not is_complete or any(start < end and stop > begin for start, stop in view.restored):
            return True
        known = self._words_by_host.setdefault(address.host, set())
        return carries_payload(address, lambda: f"{self._conversation()}\n{view.text[:begin].lower()}", known)


def _find_view_address_end(view: TextView, begin: int, max_chars: int) -> tuple[int, bool]:
    """Find the end as `find_address_end` does, but what was restored ends no address, whatever it holds."""
    end, is_sure = find_address_end(view.text, begin, max_chars)
    for start, stop in view.restored:
        if begin < stop and start <= end < stop:
            if stop >= begin + max_chars:
                return begin + max_chars, False
            end, is_sure = find_address_end(view.text, stop, begin + max_chars - stop)
    return end, is_sure
