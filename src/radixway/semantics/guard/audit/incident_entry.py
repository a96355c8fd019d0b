"""Entries for incidents. Nothing of the text that was judged can get through here.

Names that a client chooses could be text too: its request's id, the keys in a tool's arguments, the name of a
model that there is not. What does not look like a name is therefore left out or written as its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from math import isfinite

from radixway.semantics.guard.audit.entry import Fields
from radixway.semantics.guard.incident import GuardFinding, GuardIncident

_MOST_FINDINGS = 200
_MOST_NOTES = 16
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
"""Steps on the way to a text that protocols have names for; any other is written as `*`."""


def incident_fields(incident: GuardIncident, user: str | None) -> Fields:
    """An incident's fields; `user` is the pseudonym to write."""
    said: Fields = {
        "kind": "incident",
        "request": name_or_digest(incident.request, _ID),
        "tenant": name_or_digest(incident.tenant),
        "user": user,
        "model": None if incident.model is None else name_or_digest(incident.model, _MODEL),
        "rule": _sanitize_label(incident.rule),
        "action": _sanitize_label(incident.action),
        "findings": [_finding_fields(each) for each in incident.findings[:_MOST_FINDINGS]],
    }
    if len(incident.findings) > _MOST_FINDINGS:
        said["more_findings"] = len(incident.findings) - _MOST_FINDINGS
    if incident.notes:
        said["notes"] = _sanitize_notes(incident.notes)
    return said


def name_or_digest(text: str, shape: re.Pattern[str] = _ID) -> str:
    """A name as it is; what does not look like one as a digest, by which it can still be found."""
    if shape.fullmatch(text):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def sanitize_place(where: str) -> str:
    """`messages[2].content` as it is, keys that a client made up as `*`."""
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


def _sanitize_notes(notes: Mapping[str, str]) -> dict[str, str]:
    return {
        _sanitize_label(name): _sanitize_label(str(value))
        for name, value in list(notes.items())[:_MOST_NOTES]
    }


def _sanitize_label(text: str) -> str:
    return text if _LABEL.fullmatch(text) else name_or_digest(text)


def _round_share(share: float) -> float | int:
    """Four digits, and 1 as `1`: numbers that every JSON library writes alike."""
    rounded = round(share, 4) if isfinite(share) else 0.0
    return int(rounded) if rounded == int(rounded) else rounded
