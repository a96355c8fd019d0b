"""An audit log from its configuration."""

from __future__ import annotations

import os
from pathlib import Path

from radixway.config import ConfigError, radixway_home
from radixway.config.guard import AuditSection
from radixway.guard.audit.entry import Seal
from radixway.guard.audit.log import AuditLog
from radixway.guard.audit.room import AuditRoom
from radixway.telemetry import Metrics


def build_audit(section: AuditSection, metrics: Metrics, *, guard_is_on: bool) -> AuditRoom | None:
    """The log, where there is to be one. Raises ConfigError."""
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
    return AuditRoom(log, blocks=section.on_error == "block")


def directory_of(section: AuditSection) -> Path:
    """Where the log is."""
    return (section.path or radixway_home() / "audit").expanduser()


def seal_of(section: AuditSection) -> Seal:
    """How its entries are hashed. Raises ConfigError: the key is not where it should be."""
    if section.key_env is None and section.key_file is None:
        return Seal()
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
        return Seal(text.strip().encode())
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None
