"""One line of the audit log, the hash that chains it to the line before, and the lines of incidents.

    {"action":"block", … "prev":"<hash of the line before>","seq":41, … }     sealed: + "hash"

The hash is over the entry without it, as canonical JSON: keys sorted, no space, UTF-8. `jq -cSj 'del(.hash)'`
writes the same bytes, so that `sha256sum` can check a line that this program wrote.

Nothing of the text that was judged gets into an entry. Names that a client chooses could be text too: its
request's id, the keys in a tool's arguments, the name of a model that there is not. What does not look like a
name is therefore left out or written as its digest.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeAlias

from radixway.semantics.guard.incident import GuardFinding, GuardIncident

Fields: TypeAlias = dict[str, Any]

GENESIS = "0" * 64
"""Hash before the first entry."""
_SHORTEST_KEY_BYTES = 16


class EntryHasher:
    """Hashes entries: SHA-256, or HMAC-SHA-256 under a key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Raises ValueError for a `key` that could be guessed."""
        if key is not None and len(key) < _SHORTEST_KEY_BYTES:
            raise ValueError(f"a key needs {_SHORTEST_KEY_BYTES} bytes, and has {len(key)}")
        self._key = key
        self.name = "sha256" if key is None else "hmac-sha256"

    def hash_entry(self, fields: Mapping[str, Any]) -> str:
        """Return the hash of all `fields` but their own `hash`."""
        raw = encode_entry({name: value for name, value in fields.items() if name != "hash"})
        if self._key is None:
            return hashlib.sha256(raw).hexdigest()
        return hmac.new(self._key, raw, hashlib.sha256).hexdigest()

    def seal_entry(self, fields: Mapping[str, Any]) -> Fields:
        """Return `fields` with their hash."""
        return {**fields, "hash": self.hash_entry(fields)}

    def verify_entry(self, entry: Mapping[str, Any]) -> bool:
        """Return whether `entry` carries its own hash."""
        given = entry.get("hash")
        return isinstance(given, str) and hmac.compare_digest(given.encode(), self.hash_entry(entry).encode())


def encode_entry(fields: Mapping[str, Any]) -> bytes:
    """Encode `fields` in the one way in which entries are written, without the end of the line."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def parse_entry(line: bytes) -> Fields | None:
    """Decode `line`; None where it is no entry, or is written in another way than `encode_entry` does."""
    try:
        entry = json.loads(line)
        if isinstance(entry, dict) and isinstance(entry.get("seq"), int) and encode_entry(entry) == line:
            return entry
    except (ValueError, RecursionError):
        pass
    return None


def format_entry_time(now: float) -> str:
    """Format `now`, seconds since the epoch, as entries have it: UTC, to the microsecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def entry_time_s(entry: Mapping[str, Any]) -> float:
    """Return when `entry` was written. Raises ValueError where it does not say."""
    return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()


_MAX_FINDINGS = 200
_MAX_NOTES = 16
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,127}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/%<>=+,-]{0,127}")
_STEP = re.compile(r"([^.\[\]]*)((?:\[\d{1,6}\])*)")
_PROTOCOL_FIELDS = """
answer arguments audio choices content delta description document documents function functions image input
input_text instructions message messages name output output_text parameters prompt properties reasoning
reasoning_content refusal result suffix system text thinking title tool_call tool_calls tool_result tool_use
tools url user
"""
_FIELDS = frozenset(_PROTOCOL_FIELDS.split())
"""Path steps that protocols name; others are written as `*`."""


def incident_fields(incident: GuardIncident, user: str | None) -> Fields:
    """Return the fields of the entry for `incident`; `user` is the pseudonym to write."""
    fields: Fields = {
        "kind": "incident",
        "request": name_or_digest(incident.request, _ID),
        "tenant": name_or_digest(incident.tenant),
        "user": user,
        "model": None if incident.model is None else name_or_digest(incident.model, _MODEL),
        "rule": _sanitize_label(incident.rule),
        "action": _sanitize_label(incident.action),
        "findings": [_finding_fields(finding) for finding in incident.findings[:_MAX_FINDINGS]],
    }
    if len(incident.findings) > _MAX_FINDINGS:
        fields["more_findings"] = len(incident.findings) - _MAX_FINDINGS
    if incident.notes:
        notes = list(incident.notes.items())[:_MAX_NOTES]
        fields["notes"] = {_sanitize_label(name): _sanitize_label(str(value)) for name, value in notes}
    return fields


def name_or_digest(text: str, shape: re.Pattern[str] = _ID) -> str:
    """Return `text` if it is a name of this `shape`, else its digest, by which it can still be found."""
    if shape.fullmatch(text):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def sanitize_place(where: str) -> str:
    """Return `where` (`messages[2].content`) with `*` for keys that a client made up."""
    steps = []
    for step in where.split(".")[:16]:
        match = _STEP.fullmatch(step)
        name, index = match.groups() if match else ("", "")
        steps.append((name if name in _FIELDS else "*") + index)
    return ".".join(steps)


def _finding_fields(finding: GuardFinding) -> Fields:
    return {
        "type": _sanitize_label(finding.type),
        "where": sanitize_place(finding.where),
        "begin": finding.begin,
        "end": finding.end,
        "confidence": _round_share(finding.confidence),
    }


def _sanitize_label(text: str) -> str:
    return text if _LABEL.fullmatch(text) else name_or_digest(text)


def _round_share(share: float) -> float | int:
    """Round to four digits, with `1` for 1: all JSON libraries write these alike."""
    rounded = round(share, 4) if isfinite(share) else 0.0
    return int(rounded) if rounded == int(rounded) else rounded
