"""The audit log of a gateway: its health, and what becomes of requests while it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixway.semantics.guard.audit import (
    AuditLog,
    AuditUnavailableError,
    EntryHasher,
    find_pseudonym,
    search_entries,
    verify_log,
)
from radixway.semantics.guard.audit.log_files import list_log_files
from radixway.semantics.guard.incident import GuardIncident
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker


async def break_log(log: AuditLog, directory: Path) -> None:
    """Have it meet an end that does not hold."""
    (file,) = (each.path for each in list_log_files(directory))
    file.write_bytes(file.read_bytes().replace(b'"format":1', b'"format":11'))
    log.record_incident(GuardIncident("r", "default", None, None, "pii", "report"))
    with pytest.raises(AuditUnavailableError):
        await log.flush_entries()


async def status_with(directory: Path, on_error: str) -> tuple[int, dict]:
    guard = {"audit": {"path": str(directory), "on_error": on_error}}
    async with scripted_worker() as worker, running_gateway(worker.url, guard=guard) as running:
        assert (await running.chat())[0] == 200
        assert running.gateway.audit is not None
        await break_log(running.gateway.audit.log, directory)
        status, told, _ = await running.chat()
        _, health = await running.get("/health")
        assert "does not hold" in health["audit"]["error"]
        async with running.client.get(running.url + "/metrics/prometheus") as answer:
            assert "radixway_audit_failing 1.0" in await answer.text()
        return status, told


async def test_a_log_that_cannot_be_written_lets_requests_pass(tmp_path: Path) -> None:
    status, _ = await status_with(tmp_path, "allow")
    assert status == 200


async def test_or_stops_them_where_nothing_may_pass_unaudited(tmp_path: Path) -> None:
    status, told = await status_with(tmp_path, "block")
    assert status == 503 and told["error"]["code"] == "audit_unavailable"


async def test_without_a_guard_there_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway() as running:
        assert running.gateway.audit is None
    assert not (tmp_path / "audit").exists()


async def test_a_guard_keeps_its_log_in_radixway_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(guard={"enabled": True}):
        pass
    assert verify_log(tmp_path / "audit", EntryHasher()).holds


async def test_what_a_rule_blocks_is_written_down_with_the_rules_name(tmp_path: Path) -> None:
    semantic = {
        "default_model": "m",
        "keyword_rules": [{"category": "beasts", "keywords": ["griffin"]}],
        "regex_rules": [{"name": "vault", "pattern": "VAULT-\\d+", "action": "block"}],
        "categories": [
            {"name": "beasts", "model_scores": [{"model": "m", "score": 1, "use_reasoning": False}]}
        ],
    }
    sections = {"guard": {"audit": {"path": str(tmp_path)}}, "encoders": {"backend": "numpy"}}
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, semantic=semantic, **sections) as running,
    ):
        message = {"role": "user", "content": "open VAULT-42"}
        status, _, _ = await running.chat(messages=[message], user="alice")
        assert status == 403
    (entry,) = search_entries(tmp_path, rule="rules")
    assert (entry["action"], entry["notes"]) == ("block", {"rule": "vault"})
    assert entry["user"] == find_pseudonym(tmp_path, "default", "alice")
