"""`radixway keys`, `teams`, `users` and `budget` against a gateway in a process of its own."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from support.gateway_process import gateway_process

ADMIN = "the-admin-key"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command, returns what it prints; fails where its code is another."""
    tree = {"gateway": {"port": 0, "admin_key": ADMIN}, "chat": {"enabled": False}, "workers": []}
    with gateway_process(tmp_path / "gateway", tree, home=tmp_path / "home") as (url, _):
        monkeypatch.setenv("RADIXWAY_URL", url)
        monkeypatch.setenv("RADIXWAY_ADMIN_KEY", ADMIN)

        def run(*arguments: str, code: int = 0) -> str:
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == code, result.output
            return result.output

        yield run


def test_a_team_gets_a_key_with_a_budget(run, monkeypatch):
    run("teams", "create", "research", "--max-budget", "1234567.25", "--budget-duration", "30d")
    run("users", "create", "ann", "--email", "ann@example.com")
    printed = run("keys", "create", "--team", "research", "--user", "ann", "--alias", "laptop", "--rpm", "9")
    key, id = printed.split()[0], printed.split()[2].rstrip(";")
    assert key.startswith("sk-")
    monkeypatch.setenv("COLUMNS", "60")
    listed = run("keys", "list", "--team", "research")
    assert id in listed and "laptop" in listed and key not in listed
    assert "1,234,567.25" in run("teams", "list")
    assert "1,234,567.25" in run("budget", "list")
    assert json.loads(run("keys", "list", "--json"))["keys"][0]["rpm_limit"] == 9
    assert "0 of 5 USD" in run("budget", "set", "key", id, "--max-budget", "5")
    assert run("keys", "rotate", id, "--grace", "1h").split()[0] not in (key, "")
    run("keys", "block", id)
    assert json.loads(run("keys", "show", id))["state"] == "blocked"
    run("keys", "unblock", id)
    run("keys", "delete", id)
    assert "no such key" in run("keys", "show", id, code=2)
    assert "and 0 keys" in run("users", "delete", "ann")
    assert "deleted research" in run("teams", "delete", "research")


def test_mistakes_end_with_their_reason(run):
    assert "budget_duration" in run("teams", "create", "red", "--budget-duration", "soon", code=2)
    assert "--max-budget" in run("teams", "create", "red", "--max-budget", "nan", code=2)
    assert "--spend" in run("budget", "set", "team", "red", "--spend", "inf", code=2)
    assert "key, user or team" in run("budget", "set", "model", "m", "--spend", "0", code=2)
