"""The example that scales workers: whatever it names is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
import yaml

from radixway.cli import app
from radixway.core.config import load_config
from radixway.core.config.chat_env import read_env_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat"
SERVICES: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]


def command(name: str) -> Any:
    return typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]


def test_its_commands_have_the_options_that_it_uses() -> None:
    for service in ("chats", "worker"):
        program, name, *options = SERVICES[service]["command"]
        known = {flag for option in command(name).params for flag in option.opts}
        assert program == "radixway"
        assert {option for option in options if option.startswith("--")} <= known


def test_its_file_holds_variables_that_the_worker_reads_and_all_that_it_needs() -> None:
    given = read_env_file(EXAMPLE / "worker.env")
    options = {str(option.envvar): option for option in command("worker").params if option.envvar}
    assert set(given) <= set(options)
    assert {name for name, option in options.items() if option.required} <= set(given)


def test_its_server_takes_its_database_and_its_workers_key_from_the_environment(monkeypatch: Any) -> None:
    for name, value in SERVICES["chats"]["environment"].items():
        monkeypatch.setenv(name, value)
    chat = load_config().chat
    assert chat.database is not None
    assert chat.database.get_secret_value() == "postgresql://postgres:change-me@postgres:5432/chats"
    (key,) = chat.debug_api_keys
    assert key.get_secret_value() == read_env_file(EXAMPLE / "worker.env")["API_KEY"].text
