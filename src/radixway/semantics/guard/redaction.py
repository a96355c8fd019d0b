"""Personal data of a request replaced by stars or placeholders, before a model sees it.

Texts of a request written anew where they stand; everything around them keeps its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from radixway.core.config.guard import MaskStyle
from radixway.core.pipeline import BadRequest, Request
from radixway.semantics.guard.passages import Place, TextPassage
from radixway.semantics.guard.placeholders import PlaceholderVault, mask_text, replace_spans
from radixway.semantics.guard.policy import LocatedPersonalData, PiiVerdict


def redact_passages(
    passages: Sequence[TextPassage],
    found: Iterable[LocatedPersonalData],
    verdict: PiiVerdict,
    style: MaskStyle,
) -> tuple[dict[Place, str], PlaceholderVault | None]:
    """New texts for the passages that hold what `verdict` hides, and what the placeholders in them stand for.

    `passages`: all that the model will see.
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
    """Put a new text at each place that `read_texts` named. Raises BadRequest for a place that is not there.

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
    """JSON in which a number was replaced by something that is none: that becomes a string."""
    if _is_json(text):
        return text
    return _TOKEN.sub(
        lambda token: token[0] if _BARE.fullmatch(token[0]) else json.dumps(token[0], ensure_ascii=False),
        text,
    )
