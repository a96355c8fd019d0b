"""The audit log as a component of a gateway; where configured, requests wait for it."""

import os
from pathlib import Path
from typing import Any

from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import ConfigError, radixway_home
from radixway.core.config.guard import AuditConfig
from radixway.core.pipeline import GatewayError, Middleware, Next, Reply, Request
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.audit.entry import EntryHasher
from radixway.semantics.guard.audit.log import AuditLog, AuditUnavailableError
from radixway.semantics.guard.incident import GuardIncident, IncidentRecorder

_BLOCKED_BY_RULE = "blocked_by_rule"
"""Code of the error with which a rule of the semantic layer ends a request."""


class AuditRequiredError(GatewayError):
    """The guard's actions cannot be logged now, and must be."""

    status = 503
    code = "audit_unavailable"
    retry_after_s = 1


class AuditService(Component):
    """The log of a gateway, and the middlewares that need it.

    Erasing a user deletes the key of their pseudonym: the entries stay, and identify no one.
    """

    name = "audit"
    erasable_by = frozenset({"tenant", "user"})

    def __init__(self, log: AuditLog, *, blocks: bool) -> None:
        self.log = log
        self._blocks = blocks

    def middlewares(self) -> list[Middleware]:
        """Return the middlewares, which stand outside of the guard and the semantic layer."""
        return [*([_AuditGate(self.log)] if self._blocks else ()), RuleBlockAudit(self.log)]

    async def start(self) -> None:
        """Open the log. Raises ConfigError."""
        await self.log.open_log()

    async def stop(self) -> None:
        """Write what waits, and close the log."""
        await self.log.close_log()

    async def erase(self, subject: Subject) -> int:
        """Forget the pseudonyms of `subject`; return of how many users."""
        try:
            gone = await self.log.run_on_pseudonyms(
                lambda pseudonyms: pseudonyms.delete_keys(subject.tenant, subject.user)
            )
        except AuditUnavailableError as error:
            raise CannotErase(str(error)) from None
        return len(gone)

    def describe(self) -> dict[str, Any]:
        """Return what `/health` shows."""
        return self.log.describe() | {"on_error": "block" if self._blocks else "allow"}


class _AuditGate:
    """Refuses requests while the log cannot be written."""

    step_name = "_Gate"

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        if self._log.problem is not None:
            raise AuditRequiredError(
                "the audit log cannot be written now, and this gateway answers nothing without"
            )
        return await call_next(request)


class RuleBlockAudit:
    """A `pipeline.Middleware` that records the requests that rules of the semantic layer block."""

    step_name = "RuleBlocks"

    def __init__(self, recorder: IncidentRecorder) -> None:
        self._recorder = recorder

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        try:
            return await call_next(request)
        except GatewayError as error:
            if error.code == _BLOCKED_BY_RULE:
                rule = _blocking_rule(request)
                notes = None if rule is None else {"rule": rule}
                whose = (request.id, request.caller.tenant, request.user_or_claimed, request.model)
                self._recorder.record_incident(GuardIncident(*whose, "rules", "block", notes=notes))
            raise


def _blocking_rule(request: Request) -> str | None:
    """Return the rule's name, from the journal, where the decision stands."""
    for step, _, detail in reversed(request.journal.entries):
        if step == "semantic":
            rule: str | None = (detail if isinstance(detail, dict) else detail.explain()).get("rule")
            return rule
    return None


def build_audit(section: AuditConfig, metrics: MetricsRegistry, *, guard_is_on: bool) -> AuditService | None:
    """Build the log of `section`; None where there is to be none. Raises ConfigError."""
    is_on = guard_is_on if section.enabled is None else section.enabled
    if not is_on:
        return None
    log = AuditLog(
        directory_of(section),
        seal_of(section),
        retention_days=section.retention_days,
        max_file_bytes=section.max_file_mib * 2**20,
    )
    metrics.counters(
        "radixway_audit_entries",
        "Entries of the audit log: written, or lost because nothing could be written for long",
        "outcome",
        lambda: [("written", log.entries), ("lost", log.lost)],
    )
    metrics.gauge(
        "radixway_audit_failing",
        "1 while the audit log cannot be written",
        lambda: log.problem is not None,
        "max",
    )
    return AuditService(log, blocks=section.on_error == "block")


def directory_of(section: AuditConfig) -> Path:
    """Return the directory of the log of `section`."""
    return (section.path or radixway_home() / "audit").expanduser()


def seal_of(section: AuditConfig) -> EntryHasher:
    """Return the hasher that `section` asks for. Raises ConfigError: the key is not where it should be."""
    if section.key_env is None and section.key_file is None:
        return EntryHasher()
    if section.key_env is not None:
        place, text = f"guard.audit.key_env: {section.key_env}", os.environ.get(section.key_env, "")
    else:
        assert section.key_file is not None
        place = f"guard.audit.key_file: {section.key_file}"
        try:
            text = section.key_file.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"{place} cannot be read: {why}") from None
    try:
        return EntryHasher(text.strip().encode())
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None
