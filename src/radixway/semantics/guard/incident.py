"""Incidents: findings of a guard and its action, without any of the text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """A finding, by type and position."""

    type: str
    """`EMAIL_ADDRESS`, `prompt_injection`, `system_prompt_leak` …"""
    where: str
    """`messages[2].content`, `answer`; a place, never its text."""
    begin: int
    """Start in characters."""
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class GuardIncident:
    """Findings of one rule in one request, and what became of them."""

    request: str
    """The request's id."""
    tenant: str
    user: str | None
    model: str | None
    rule: str
    """`pii`, `jailbreak`, `answers.pii`, `answers.system_prompt` …"""
    action: str
    """`report`, `mask`, `redact`, `route`, `block`, or `error`."""
    findings: tuple[GuardFinding, ...] = ()
    notes: Mapping[str, str] | None = None
    """Threshold, model that was chosen instead, and the like. Never text of the request."""


class IncidentRecorder(Protocol):
    """Where incidents are recorded: the audit log."""

    def record_incident(self, incident: GuardIncident) -> None:
        """Record `incident`, at once and without raising."""
        ...
