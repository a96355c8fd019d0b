"""`POST /admin/erase` and `radixway erase` against a gateway that has everything of two users."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from radixway.semantics.guard.audit import EntryHasher, find_pseudonym, search_entries, verify_log
from radixway.semantics.guard.incident import GuardIncident
from support.engine_process import engine_process
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

ADMIN = {"authorization": "Bearer the-admins-own-key"}
KEYS = {"alice": "a-key-of-alice-alone", "bob": "a-key-of-bob-alone"}
SECRET = "法国的首都是哪里，{}？"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


def sections(home: Path) -> dict[str, Any]:
    keys = [{"key": key, "user": user} for user, key in KEYS.items()]
    return {
        "gateway": {"admin_key": "the-admins-own-key"},
        "tenants": {"acme": {"keys": keys}},
        "semantic_cache": {"enabled": True},
        "encoders": {"backend": "numpy"},
        "trajectories": {"enabled": True, "sessions": {"path": str(home / "sessions.sqlite")}},
        "guard": {"audit": {"path": str(home / "audit")}},
    }


async def use_everything(gateway: RunningGateway, user: str) -> dict[str, str]:
    """Request ids by what was asked."""
    headers = {"authorization": f"Bearer {KEYS[user]}"}
    question = SECRET.format(user)
    chat = {"model": "radixway-guide", "max_tokens": 300, "temperature": 0}
    chat |= {"messages": [{"role": "user", "content": question}]}
    generate = {"text": question, "sampling_params": {"max_new_tokens": 4}}
    ids = {}
    for name, path, body in (
        ("chat", "/v1/chat/completions", chat),
        ("generate", "/generate", generate),
        ("session", f"/sessions/s-{user}/v1/chat/completions", chat),
    ):
        status, told, answered = await gateway.post(path, body, headers=headers)
        assert status == 200, told
        ids[name] = answered["x-request-id"]
    assert gateway.gateway.audit is not None and gateway.gateway.cache is not None
    gateway.gateway.audit.log.record_incident(GuardIncident(ids["chat"], "acme", user, None, "pii", "report"))
    await gateway.gateway.audit.log.flush_entries()
    await gateway.gateway.cache.middleware.wait_for_writes()
    return ids


async def what_there_is(gateway: RunningGateway, user: str, ids: dict[str, str], home: Path) -> set[str]:
    """The rooms that still have something of a user."""
    rooms = gateway.gateway
    assert rooms.cache is not None and rooms.recorder is not None
    there = {"semantic_cache"} if any(each.user == user for each in rooms.cache.memory) else set()
    for request_id in ids.values():
        there |= (
            {"journals"} if (await gateway.get(f"/explain/{request_id}", headers=ADMIN))[0] == 200 else set()
        )
    there |= {"sessions"} if (await gateway.get(f"/sessions/s-{user}", headers=ADMIN))[0] == 200 else set()
    trie = await rooms.recorder.tries.trie_for("radixway-guide")
    question = SECRET.format(user)
    known = trie.store.match_prefix(question).text
    there |= {"trajectories"} if known == len(question.encode()) else set()
    there |= {"audit"} if find_pseudonym(home / "audit", "acme", user) else set()
    return there


ALL = {"semantic_cache", "journals", "sessions", "trajectories", "audit"}


async def test_one_call_forgets_a_user_in_every_room_and_nobody_else(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(engine, **sections(tmp_path)) as gateway:
        ids = {user: await use_everything(gateway, user) for user in KEYS}
        for user in KEYS:
            assert await what_there_is(gateway, user, ids[user], tmp_path) == ALL

        status, told, _ = await gateway.post(
            "/admin/erase", {"tenant": "acme", "user": "alice"}, headers=ADMIN
        )

        assert status == 200 and told["complete"]
        assert {name: room["status"] for name, room in told["rooms"].items()} == {
            **dict.fromkeys([*ALL, "routing", "chats", "keys"], "erased"),
            "files": "cannot_tell",  # they know tenants, and not users
        }
        assert all(told["rooms"][name]["entries"] >= 1 for name in ALL)
        assert await what_there_is(gateway, "alice", ids["alice"], tmp_path) == set()
        assert await what_there_is(gateway, "bob", ids["bob"], tmp_path) == ALL
        files = await asyncio.to_thread(lambda: b"".join(each.read_bytes() for each in _files(tmp_path)))
        assert b"alice" not in files and SECRET.format("alice").encode() not in files

        result = await asyncio.to_thread(
            CliRunner().invoke,
            app,
            ["erase", "--tenant", "acme", "--all", "--url", gateway.url, "--key", "the-admins-own-key"],
        )
        assert result.exit_code == 0 and "sessions: erased, 1 entries" in result.output
        assert await what_there_is(gateway, "bob", ids["bob"], tmp_path) == set()
    erasures = [entry for entry in search_entries(tmp_path / "audit") if entry["kind"] == "erasure"]
    assert [entry["by"] for entry in erasures] == [["tenant", "user"], ["tenant"]]
    assert verify_log(tmp_path / "audit", EntryHasher()).holds


def _files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


async def test_a_single_request_is_forgotten_with_the_answer_it_left(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(engine, **sections(tmp_path)) as gateway:
        ids = await use_everything(gateway, "alice")
        asked = {"tenant": "acme", "request": ids["chat"]}
        _, told, _ = await gateway.post("/admin/erase", asked, headers=ADMIN)
        assert told["rooms"]["semantic_cache"] == {"status": "erased", "entries": 1}
        assert told["rooms"]["journals"] == {"status": "erased", "entries": 1}
        assert told["rooms"]["sessions"]["status"] == "cannot_tell"


async def test_workers_empty_their_prefix_caches_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    busy = [True]

    async def flush(exchange: Exchange) -> None:
        assert exchange.path == "/flush_cache"
        await exchange.reply(400 if busy[0] else 200, b"{}")

    async def has_none(exchange: Exchange) -> None:
        await exchange.reply(404, b"{}")

    async with (
        scripted_worker(flush) as worker,
        scripted_worker(has_none) as other,
        running_gateway(worker.url, other.url) as gateway,
    ):
        subject = {"tenant": "default", "user": "alice"}
        _, told, _ = await gateway.post("/admin/erase", subject)
        assert "workers" not in told["rooms"] and not worker.requests
        status, told, _ = await gateway.post("/admin/erase", subject | {"workers": True})
        assert status == 207 and told["rooms"]["workers"]["status"] == "pending"
        busy[0] = False
        status, told, _ = await gateway.post("/admin/erase", subject | {"workers": True})
        assert status == 200 and told["rooms"]["workers"] == {"status": "erased", "entries": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": "acme"}, "user"),
        ({"tenant": "acme", "user": 7}, "user"),
        ({"tenant": "acme", "users": "alice"}, "users"),
        (b"{", None),
    ],
)
async def test_what_names_nobody_is_refused_by_field(body: Any, field: str | None) -> None:
    async with running_gateway() as gateway:
        status, told, _ = await gateway.post("/admin/erase", body)
        assert status == 400 and told["error"]["param"] == field


async def test_only_an_administrator_may_have_somebody_forgotten(tmp_path: Path) -> None:
    async with running_gateway(tenants=sections(tmp_path)["tenants"]) as gateway:
        asked = {"tenant": "acme", "user": "bob"}
        headers = {"authorization": f"Bearer {KEYS['alice']}"}
        assert (await gateway.post("/admin/erase", asked, headers=headers))[0] == 403
        assert (await gateway.post("/admin/erase", asked))[0] == 401
