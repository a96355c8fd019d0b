"""The log of a running gateway: what gets into it, and what becomes of it when the disk fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from radixway.core.config import ConfigError
from radixway.semantics.guard.audit import (
    AuditLog,
    AuditUnavailableError,
    EntryHasher,
    find_pseudonym,
    search_entries,
    verify_log,
)
from radixway.semantics.guard.audit.log_files import list_log_files
from radixway.semantics.guard.incident import GuardFinding, GuardIncident

NOON = 1_795_262_400.0  # 2026-11-21T12:00:00Z
DAY = 86_400.0


def incident(**fields: Any) -> GuardIncident:
    told: dict[str, Any] = {
        "request": "req-1",
        "tenant": "acme",
        "user": "alice@example.org",
        "model": "qwen",
        "rule": "pii",
        "action": "block",
        "findings": (GuardFinding("EMAIL_ADDRESS", "messages[2].content", 10, 31, 0.98765),),
    }
    return GuardIncident(**(told | fields))


@asynccontextmanager
async def running(directory: Path, **more: Any) -> AsyncIterator[AuditLog]:
    log = AuditLog(directory, EntryHasher(), clock=more.pop("clock", lambda: NOON), **more)
    await log.open_log()
    try:
        yield log
    finally:
        await log.close_log()


def said(directory: Path) -> list[dict[str, Any]]:
    return [entry for entry in search_entries(directory) if entry["kind"] != "begin"]


def all_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_an_incident_is_written_with_who_when_which_rule_and_where(tmp_path: Path) -> None:
    async with running(tmp_path) as log:
        log.record_incident(incident(notes={"threshold": "0.7"}))

    (entry,) = said(tmp_path)

    assert entry["time"] == "2026-11-21T12:00:00.000000Z"
    assert {name: entry[name] for name in ("tenant", "request", "model", "rule", "action", "notes")} == {
        "tenant": "acme",
        "request": "req-1",
        "model": "qwen",
        "rule": "pii",
        "action": "block",
        "notes": {"threshold": "0.7"},
    }
    assert entry["findings"] == [
        {
            "type": "EMAIL_ADDRESS",
            "where": "messages[2].content",
            "begin": 10,
            "end": 31,
            "confidence": 0.9877,
        }
    ]
    assert verify_log(tmp_path, EntryHasher()).holds


async def test_a_user_is_a_pseudonym_that_the_table_leads_back_from(tmp_path: Path) -> None:
    async with running(tmp_path) as log:
        log.record_incident(incident())
        log.record_incident(incident(request="req-2"))
        log.record_incident(incident(tenant="other"))

    first, second, others = (entry["user"] for entry in said(tmp_path))

    assert first == second == find_pseudonym(tmp_path, "acme", "alice@example.org")
    assert others != first
    assert all(b"alice" not in file.read_bytes() for _, _, file in list_log_files(tmp_path))


async def test_an_erased_user_is_found_in_no_file_of_the_log_and_the_chain_holds(tmp_path: Path) -> None:
    async with running(tmp_path) as log:
        log.record_incident(incident())
        await log.flush_entries()
        (forgotten,) = await log.run_on_pseudonyms(
            lambda pseudonyms: pseudonyms.delete_keys("acme", "alice@example.org")
        )
        log.record_incident(incident(request="req-2"))

    before, after = (entry["user"] for entry in said(tmp_path))

    assert before == forgotten != after
    assert verify_log(tmp_path, EntryHasher()).holds
    async with running(tmp_path) as log:
        await log.run_on_pseudonyms(lambda pseudonyms: pseudonyms.delete_keys("acme", None))
    assert all(b"alice" not in file.read_bytes() for file in all_in(tmp_path))


@pytest.mark.parametrize(
    "fields",
    [
        {"request": "card 4111 1111 1111 1111"},
        {"model": "alice@example.org"},
        {"notes": {"why": "because alice@example.org said so"}},
        {"notes": {"alice@example.org": "x"}},
        {"findings": (GuardFinding("X", "messages[0].tool_calls[1].alice@example.org.name", 0, 1, 1.0),)},
        {"findings": (GuardFinding("alice@example.org", "answer", 0, 1, 1.0),)},
    ],
)
async def test_names_that_a_client_made_up_do_not_get_in(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with running(tmp_path) as log:
        log.record_incident(incident(user=None, **fields))
    (entry,) = said(tmp_path)
    assert "alice" not in json.dumps(entry) and "4111" not in json.dumps(entry)


async def test_what_cannot_be_written_waits_and_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, retry_s=0.01) as log:
        log.record_incident(incident())
        await log.flush_entries()
        (file,) = (each.path for each in list_log_files(tmp_path))
        whole = file.read_bytes()
        replace(file, whole.replace(b'"block"', b'"allowed"'))  # the chain's end does not hold any more
        log.record_incident(incident(request="req-2"))
        with pytest.raises(AuditUnavailableError, match="does not hold"):
            await log.flush_entries()
        assert log.describe()["error"] == log.problem is not None

        replace(file, whole)
        await flushed(log)
        assert log.problem is None

    assert [entry["request"] for entry in said(tmp_path)] == ["req-1", "req-2"]
    assert verify_log(tmp_path, EntryHasher()).holds


def replace(file: Path, content: bytes) -> None:
    """At once, so that nobody meets half of it."""
    fresh = file.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(file)


async def flushed(log: AuditLog) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                return await log.flush_entries()
            except AuditUnavailableError:
                continue


async def test_old_files_go_when_the_log_is_opened_and_once_a_day(tmp_path: Path) -> None:
    now = [NOON]
    async with running(tmp_path, clock=lambda: now[0], retention_days=2) as log:
        log.record_incident(incident())
        await log.flush_entries()
        now[0] += 5 * DAY
        log.record_incident(incident(request="req-2"))
    now[0] += 5 * DAY
    async with running(tmp_path, clock=lambda: now[0], retention_days=2):
        pass

    verdict = verify_log(tmp_path, EntryHasher())

    assert verdict.holds and [entry["kind"] for entry in said(tmp_path)] == ["retention"]


async def test_a_directory_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"guard\.audit: .*cannot be used"):
        await AuditLog(tmp_path / "file", EntryHasher()).open_log()
