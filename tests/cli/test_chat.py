"""`radixway chat`: users, keys and the root token, in the database itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from radixway.cli import app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def radixway(*args: str) -> Result:
    return CliRunner().invoke(app, ["chat", *args])


def made(*args: str) -> str:
    told = radixway(*args)
    assert told.exit_code == 0, told.output
    return told.stdout.strip()


def test_the_root_token_is_made_once(home: Path) -> None:
    token = made("root-token")
    assert token == made("root-token") == json.loads((home / "chat-secrets.json").read_text())["root_token"]
    assert len(token) >= 40 and (home / "chat-secrets.json").stat().st_mode & 0o077 == 0


def test_a_user_and_their_keys_from_the_first_to_the_last() -> None:
    user = made("users", "create", "eve")
    assert made("users", "create", "eve") == user
    made("users", "role", user, "admin")
    listed = made("users", "list")
    assert user in listed and "admin" in listed
    key = made("keys", "create", "laptop", "--scope", "user", "--user", user, "--expires-in", "90d")
    assert key.startswith("rxw_") and len(key) > 40
    shown = made("keys", "list")
    assert key not in shown and key[:10] in shown
    key_id = shown.splitlines()[1].split()[0]
    other = made("keys", "rotate", key_id, "--overlap", "1h")
    assert other.startswith("rxw_") and other != key
    made("keys", "revoke", key_id)
    assert key[:10] not in made("keys", "list") and other[:10] in made("keys", "list")
    made("users", "delete", user)
    assert other[:10] not in made("keys", "list") and user not in made("users", "list")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("keys", "create", "k", "--scope", "user"), "needs a user"),
        (("keys", "create", "k", "--scope", "worker", "--expires-in", "soon"), "--expires-in"),
        (("keys", "create", "k", "--scope", "worker", "--expires-in", "9999999d"), "--expires-in: at most"),
        (("keys", "revoke", "nothing"), "Key not found"),
        (("keys", "create", "k", "--scope", "user", "--user", "nobody"), "User not found"),
        (("users", "role", "nobody", "admin"), "User not found"),
    ],
)
def test_what_cannot_be_ends_in_words(args: tuple[str, ...], why: str) -> None:
    told = radixway(*args)
    assert told.exit_code == 2 and why in told.output


def test_everything_of_a_user_is_written_for_its_owner_alone(home: Path) -> None:
    user, other = made("users", "create", "eve"), made("users", "create", "bob")
    out = home / "eve.jsonl"
    out.write_text("of before")
    out.chmod(0o644)
    made("export", "--user", user, "--out", str(out))
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert told[0]["user_id"] == user
    assert [line["row"]["display_name"] for line in told[1:] if line["table"] == "users"] == ["eve"]
    assert out.stat().st_mode & 0o077 == 0 and other not in out.read_text()


def test_of_nobody_nothing_is_written(home: Path) -> None:
    told = radixway("export", "--user", "nobody", "--out", str(home / "nobody.jsonl"))
    assert told.exit_code == 2 and "User not found" in told.output
    assert not (home / "nobody.jsonl").exists()
    user = made("users", "create", "eve")
    told = radixway("export", "--user", user, "--out", str(home / "no" / "such"))
    assert told.exit_code == 2 and "no/such" in told.output


def test_of_what_was_deleted_nothing_stays_in_files_that_are_scrubbed(home: Path) -> None:
    user = made("users", "create", "Zq7WvLonelyName")
    made("users", "delete", user)
    made("scrub")
    assert b"Zq7WvLonelyName" not in b"".join(path.read_bytes() for path in home.glob("chats.db*"))


def test_a_time_beyond_the_calendar_is_shown_all_the_same() -> None:
    from radixway.cli.chat import _format_time

    assert _format_time(1e14) == "never"
    assert _format_time(0.0) == "1970-01-01 00:00"
