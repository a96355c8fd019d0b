"""Replacements of personal data in a request: stars, the name of its type, or a placeholder.

"write to anna@example.org"   ─ PlaceholderVault ──►  "write to [EMAIL_ADDRESS_1]"  ─►  the model
"I wrote to anna@example.org" ◄─ PlaceholderVault ──  "I wrote to [email address 1]" ◄──────┘

Texts are rewritten in place; everything around them keeps its bytes.
"""

import json
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from radixway.core.config.guard import MaskStyle
from radixway.core.pipeline import BadRequest, PersonalDataSpan, Request
from radixway.semantics.guard.passages import Place, TextPassage
from radixway.semantics.guard.policy import LocatedPersonalData, PiiVerdict

_SAME_IN_ANY_CASE = frozenset({"EMAIL_ADDRESS", "DOMAIN_NAME", "IP_ADDRESS", "IBAN_CODE"})
"""Types whose letter case does not matter; the first spelling stands for all."""

_MAX_PLACEHOLDERS = 10_000
_MAX_NAME_CHARS = 64
_MAX_SPELLING_CHARS = 100
"""Characters between a placeholder's brackets, with spaces and backslashes that a model may add."""

_INSIDE = r"[\w\\\- \u00a0]"
_ANY = re.compile(rf"\\?\[({_INSIDE}{{2,{_MAX_SPELLING_CHARS}}}?)\\?\]")
r"""Matches placeholders as models write them: `[PERSON_1]`, `[Person 1]`, `\[PERSON\_1\]`."""
_BEGUN = re.compile(rf"{_INSIDE}{{0,{_MAX_SPELLING_CHARS + 1}}}")
_NUMBERED = re.compile(r"(.*?)[\W_]*(\d+)[\W_]*")
_BETWEEN = re.compile(r"[\W_]+")


def mask_text(found: str, text: str, style: MaskStyle = "stars") -> str:
    """Return the replacement in `style` for `text`, which is personal data of the type `found`."""
    if style == "type":
        return f"<{found}>"
    return "*****" if style == "stars" else re.sub(r"\S", "*", text)


class RestoredText(NamedTuple):
    """A stretch of an answer: what it says, and what the model wrote there."""

    text: str
    written: str

    @property
    def is_own(self) -> bool:
        """The model's own words, no placeholder."""
        return self.text is self.written


class PlaceholderVault:
    """The placeholders of one request, and what they stand for.

    The same text has the same placeholder, different texts have different ones: letter case counts, but for
    email addresses, domain names, IP addresses and IBANs. They are numbered by type in the order in which
    texts are put in, so that a conversation that is told again, and longer, has the same.

    It lives in memory, with its request, and does not say what it holds: not in `repr`, not in logs.
    """

    __slots__ = ("_by_key", "_by_text", "_flat", "_max_placeholders", "_numbers", "_taken")

    def __init__(self, texts: Iterable[str] = (), max_placeholders: int = _MAX_PLACEHOLDERS) -> None:
        """`texts`: all the model will see. No placeholder is spelled, however loosely, like anything in them.

        Beyond `max_placeholders` different texts, the name of its type stands for each further one, for good.
        """
        self._max_placeholders = max_placeholders
        self._taken = {_lookup_key(match[1]) for text in texts for match in _ANY.finditer(text)}
        self._by_text: dict[str, str] = {}
        self._by_key: dict[str, str] = {}
        self._flat: list[str] = []
        """Sorted keys without separators: a partial spelling is a prefix of one."""
        self._numbers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_key)

    def __repr__(self) -> str:
        return f"<PlaceholderVault of {len(self)}>"

    def add_placeholder(self, found: PersonalDataSpan, text: str, place: Place) -> str:
        """Return the placeholder for `text`, `found` at `place`: as JSON in a tool call's arguments."""
        if place and place[-1] == "arguments":
            with suppress(msgspec.DecodeError, UnicodeError):
                text = msgspec.json.decode(f'"{text}"', type=str)
        same = text.casefold() if found.type in _SAME_IN_ANY_CASE else text
        known = self._by_text.get(same)
        if known is not None:
            return known
        if len(self._by_key) >= self._max_placeholders:
            return mask_text(found.type, text, "type")
        placeholder, key = self._next_name(_BETWEEN.sub("_", found.type.upper())[:_MAX_NAME_CHARS])
        self._by_text[same], self._by_key[key] = placeholder, text
        insort(self._flat, key.replace("_", ""))
        return placeholder

    def restore_text(self, text: str, *, in_json: bool = False) -> str:
        """Return all of `text` with the placeholders turned back. `in_json`: it is JSON, and stays so."""
        restorer = PlaceholderRestorer(self, in_json=in_json)
        return "".join(part.text for part in (*restorer.restore_delta(text), *restorer.restore_rest()))

    def find_original(self, spelled: str) -> str | None:
        """Return the text behind what is `spelled` between brackets."""
        return self._by_key.get(_lookup_key(spelled))

    def is_prefix(self, spelled: str) -> bool:
        """Return whether more letters could make `spelled` a placeholder."""
        flat = _flatten_spelling(spelled)
        at = bisect_left(self._flat, flat)
        return at < len(self._flat) and self._flat[at].startswith(flat)

    def _next_name(self, name: str) -> tuple[str, str]:
        while True:
            self._numbers[name] += 1
            placeholder = f"[{name}_{self._numbers[name]}]"
            key = _lookup_key(placeholder[1:-1])
            if key not in self._taken and key not in self._by_key:
                return placeholder, key


class PlaceholderRestorer:
    """Turns placeholders back in a text that comes in pieces; how it is divided changes nothing.

    A placeholder may be spelled in another letter case, with spaces or hyphens for underscores, and escaped
    as in Markdown. What may still become one is held back: at most about a hundred characters.
    """

    __slots__ = ("_in_json", "_pending", "_vault")

    def __init__(self, vault: PlaceholderVault, *, in_json: bool = False) -> None:
        self._vault = vault
        self._in_json = in_json
        self._pending = ""

    def restore_delta(self, text: str) -> list[RestoredText]:
        """Return the parts that are certain once `text` has come."""
        text = self._pending + text
        end = self._undecided_from(text)
        self._pending = text[end:]
        return list(self._restored(text[:end]))

    def restore_rest(self) -> list[RestoredText]:
        """Return the parts that were held back; no more text will come."""
        pending, self._pending = self._pending, ""
        return list(self._restored(pending))

    def _restored(self, text: str) -> Iterator[RestoredText]:
        done = 0
        for match in _ANY.finditer(text):
            value = self._vault.find_original(match[1])
            if value is None:
                continue
            if match.start() > done:
                own = text[done : match.start()]
                yield RestoredText(own, own)
            escaped = msgspec.json.encode(value)[1:-1].decode() if self._in_json else value
            yield RestoredText(escaped, match[0])
            done = match.end()
        if done < len(text):
            own = text[done:]
            yield RestoredText(own, own)

    def _undecided_from(self, text: str) -> int:
        at = text.rfind("[")
        if at >= 0 and _BEGUN.fullmatch(text, at + 1) and self._vault.is_prefix(text[at + 1 :]):
            return at - text.endswith("\\", 0, at)
        return len(text) - text.endswith("\\")


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with `new` in place of each `(begin, end, new)`; of two that overlap, what is left."""
    parts: list[str] = []
    done = 0
    for begin, end, new in spans:
        if end > done:
            parts += (text[done : max(begin, done)], new)
            done = end
    return "".join(parts) + text[done:]


def _lookup_key(spelled: str) -> str:
    """Return one key for every spelling of a placeholder's name: `emailaddress_1`."""
    numbered = _NUMBERED.fullmatch(spelled)
    return f"{_flatten_spelling(numbered[1])}_{numbered[2]}" if numbered else _flatten_spelling(spelled)


def _flatten_spelling(spelled: str) -> str:
    return _BETWEEN.sub("", spelled).casefold()


def redact_passages(
    passages: Sequence[TextPassage],
    found: Iterable[LocatedPersonalData],
    verdict: PiiVerdict,
    style: MaskStyle,
) -> tuple[dict[Place, str], PlaceholderVault | None]:
    """Return new texts for the passages that hold what `verdict` hides, and the vault of their placeholders.

    `passages`: all that the model will see. `found`: what is in them. `style`: of masks.
    """
    vault = PlaceholderVault(passage.text for passage in passages) if verdict.redacted else None
    spans: dict[Place, list[tuple[int, int, str]]] = {}
    texts: dict[Place, str] = {}
    for each in found:
        found_here, passage = each.found, each.passage
        if found_here.type not in verdict.edits:
            continue
        text = passage.text[found_here.begin : found_here.end]
        if vault is not None and found_here.type in verdict.redacted:
            new = vault.add_placeholder(found_here, text, passage.place)
        else:
            new = mask_text(found_here.type, text, style)
        spans.setdefault(passage.place, []).append((found_here.begin, found_here.end, new))
        texts[passage.place] = passage.text
    return {place: replace_spans(texts[place], own) for place, own in spans.items()}, vault


_encode = msgspec.json.encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

Changes = Mapping[Place, str]


def replace_texts(request: Request, changes: Changes) -> None:
    """Put `changes` into the body of `request`, by place. Raises BadRequest for a place that is not there.

    JSON in a text, and an object that was read as its JSON, stays JSON.
    """
    if not changes:
        return
    try:
        parts = _fields(request.raw)
        request.edit(
            **{
                str(name): _replace_in_json(parts[str(name)], own)
                for name, own in _group_by_field(changes).items()
            }
        )
    except (KeyError, IndexError, TypeError, RecursionError, msgspec.DecodeError) as error:
        raise BadRequest(f"a text of the body cannot be replaced: {type(error).__name__}") from None


def _group_by_field(changes: Changes) -> dict[str | int, dict[Place, str]]:
    parted: dict[str | int, dict[Place, str]] = {}
    for place, text in changes.items():
        parted.setdefault(place[0], {})[place[1:]] = text
    return parted


def _replace_in_json(raw: msgspec.Raw, changes: Changes) -> msgspec.Raw:
    if () in changes:
        return msgspec.Raw(_encode_text(bytes(raw), changes[()]))
    if bytes(raw).lstrip()[:1] == b"[":
        items = _items(raw)
        for at, own in _group_by_field(changes).items():
            items[int(at)] = _replace_in_json(items[int(at)], own)
        return msgspec.Raw(_encode(items))
    fields = _fields(raw)
    for name, own in _group_by_field(changes).items():
        fields[str(name)] = _replace_in_json(fields[str(name)], own)
    return msgspec.Raw(_encode(fields))


def _encode_text(old: bytes, text: str) -> bytes:
    value: Any = msgspec.json.decode(old)
    if not isinstance(value, str):
        return repair_json_numbers(text).encode()
    return _encode(repair_json_numbers(text) if _is_json(value) else text)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')
_BARE = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null|\".*", re.DOTALL)


def repair_json_numbers(text: str) -> str:
    """Return `text`, JSON in which a number may have been replaced, with such replacements as strings."""
    if _is_json(text):
        return text
    return _TOKEN.sub(
        lambda token: token[0] if _BARE.fullmatch(token[0]) else json.dumps(token[0], ensure_ascii=False),
        text,
    )
