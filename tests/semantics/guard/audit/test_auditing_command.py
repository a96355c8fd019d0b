"""`radixway audit`, as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from radixway.semantics.guard.audit import AuditLog, EntryHasher, HashChain
from radixway.semantics.guard.audit.log_files import list_log_files
from radixway.semantics.guard.incident import GuardFinding, GuardIncident

NOON = 1_795_262_400.0


def run(*args: str, **env: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *args], env=env)
    return result.exit_code, result.output


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """Three entries: the first of all, one of acme's alice, one of initech's."""
    directory = tmp_path / "audit"
    audit = AuditLog(directory, EntryHasher(), clock=lambda: NOON)
    await audit.open_log()
    findings = (GuardFinding("EMAIL_ADDRESS", "messages[0].content", 3, 9, 0.9),)
    audit.record_incident(GuardIncident("r1", "acme", "alice", "m", "pii", "mask", findings))
    audit.record_incident(GuardIncident("r2", "initech", None, "m", "answers.pii", "report"))
    await audit.close_log()
    return directory


async def test_a_log_that_holds_ends_with_0_and_its_head_can_be_expected(log: Path) -> None:
    code, head = run("head", str(log))
    assert code == 0 and head.startswith("2:")
    assert run("verify", str(log), "--expect", head.strip())[0] == 0
    told = json.loads(run("verify", str(log), "--json")[1])
    assert told["holds"] and told["entries"] == 3 and f"2:{told['head']['hash']}" == head.strip()


async def test_a_log_that_was_changed_ends_with_1_and_names_the_entry(log: Path) -> None:
    file = list_log_files(log)[0].path
    file.write_bytes(file.read_bytes().replace(b'"mask"', b'"none"'))
    code, said = run("verify", str(log))
    assert code == 1 and "entry 1 was changed" in said and file.name in said
    assert json.loads(run("verify", str(log), "--json")[1])["broken"]["seq"] == 1
    assert run("head", str(log))[0] == 2


async def test_a_log_whose_last_line_was_removed_ends_with_1(log: Path) -> None:
    file = list_log_files(log)[0].path
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    code, said = run("verify", str(log))
    assert code == 1 and "entry 2 was truncated" in said and "whole" not in said


async def test_a_single_file_is_whole_as_far_as_it_goes(log: Path) -> None:
    code, said = run("verify", str(list_log_files(log)[0].path))
    assert code == 0 and "whole as far as they go" in said and "--expect" in said
    assert not json.loads(run("verify", str(list_log_files(log)[0].path), "--json")[1])["end_known"]


async def test_entries_are_shown_by_tenant_rule_user_and_time(log: Path) -> None:
    def requests(*options: str) -> list[str]:
        code, said = run("show", str(log), "--json", *options)
        assert code == 0
        return [json.loads(line).get("request") for line in said.splitlines()]

    assert requests() == [None, "r1", "r2"]
    assert requests("--tenant", "acme") == ["r1"]
    assert requests("--tenant", "acme", "--user", "alice") == ["r1"]
    assert requests("--rule", "answers") == ["r2"]
    assert requests("--since", "2026-11-22") == []
    assert "EMAIL_ADDRESS at messages[0].content 3–9" in run("show", str(log))[1]


async def test_the_configured_log_and_key_are_taken_where_none_are_named(tmp_path: Path) -> None:
    key = "the auditors know this one"
    HashChain(tmp_path / "audit", EntryHasher(key.encode())).open_chain(NOON)
    file = tmp_path / "radixway.yaml"
    file.write_text("guard: {audit: {key_env: AUDIT_KEY}}\n")

    code, said = run("verify", "-c", str(file), RADIXWAY_HOME=str(tmp_path), AUDIT_KEY=key)
    assert code == 0 and "hmac-sha256" in said
    assert run("verify", str(tmp_path / "audit"))[0] == 1
    assert run("verify", "-c", str(file), RADIXWAY_HOME=str(tmp_path))[0] == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("verify", "/nowhere"), "cannot be read"),
        (("verify", "."), "holds no audit log"),
        (("verify", ".", "--expect", "7"), "SEQ:HASH"),
        (("show", ".", "--user", "alice"), "--tenant"),
    ],
)
def test_what_cannot_be_answered_ends_with_2_and_a_sentence(args: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(app, ["audit", *args])
    assert result.exit_code == 2 and says in result.output
