"""Whose files, batches and responses are: in one SQLite file, off the event loop, no more than are needed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from radixway.api.worker_files import FileOwnerStore
from radixway.core.component import Subject

URL = "http://worker"


@asynccontextmanager
async def opened(path: Path, max_responses: int = 10_000) -> AsyncIterator[FileOwnerStore]:
    store = FileOwnerStore(path, max_responses=max_responses)
    yield store
    await store.stop()


def ids_in(path: Path, tenant: str = "a") -> list[str]:
    """The ids of `tenant`, the oldest first."""
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT id FROM files WHERE tenant = ? ORDER BY position"
        return [row[0] for row in db.execute(query, (tenant,))]


async def test_the_newest_responses_of_each_tenant_stay_and_all_of_its_files(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path, max_responses=3) as store:
        await store.add_file("a", "file-1", URL, "file")
        await store.add_file("b", "resp_b", URL, "response")
        for number in range(6):
            await store.add_file("a", f"resp_{number}", URL, "response")
        await store.add_file("a", "batch_1", URL, "batch")
        assert ids_in(path) == ["file-1", "resp_3", "resp_4", "resp_5", "batch_1"]
        assert ids_in(path, "b") == ["resp_b"]
        assert await store.find_worker("a", "resp_2") is None
        assert await store.find_worker("a", "resp_3") == URL
        assert await store.list_files("a") == {"file-1", "batch_1"}


async def test_what_is_known_is_not_written_again_but_for_its_worker(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path, max_responses=2) as store:
        for file_id in ("resp_1", "resp_2", "resp_1", "resp_1"):
            await store.add_file("a", file_id, URL, "response")
        assert ids_in(path) == ["resp_1", "resp_2"]
        await store.add_file("a", "resp_1", "http://other", "response")
        assert await store.find_worker("a", "resp_1") == "http://other"


async def test_many_responses_are_pruned_by_the_hundredth(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path, max_responses=300) as store:
        for number in range(1000):
            await store.add_file("a", f"resp_{number}", URL, "response")
        assert 300 <= len(ids_in(path)) < 303
        assert ids_in(path)[-1] == "resp_999"
    async with opened(path, max_responses=100) as store:  # another process, with its first one
        await store.add_file("a", "resp_1000", URL, "response")
        assert len(ids_in(path)) == 100


async def test_a_file_of_the_first_version_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE files (tenant TEXT NOT NULL, id TEXT NOT NULL, worker TEXT NOT NULL,"
            " PRIMARY KEY (tenant, id)) WITHOUT ROWID"
        )
        ids = ("resp_1", "resp_2", "respond", "file-1", "batch_1")
        db.executemany("INSERT INTO files VALUES ('a', ?, ?)", [(each, URL) for each in ids])
        db.execute("PRAGMA user_version = 1")
        db.commit()
    async with opened(path, max_responses=2) as store:
        assert [await store.find_worker("a", each) for each in ids] == [URL] * 5
        assert await store.list_files("a") == {"respond", "file-1", "batch_1"}
        await store.add_file("a", "resp_3", URL, "response")
        assert sorted(ids_in(path)) == ["batch_1", "file-1", "resp_2", "resp_3", "respond"]


async def test_only_what_is_of_the_tenant_and_the_kind_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path) as store:
        await store.add_file("a", "resp_1", URL, "response")
        await store.remove_file("b", "resp_1", "response")
        await store.remove_file("a", "resp_1", "file")
        assert await store.find_worker("a", "resp_1") == URL
        await store.remove_file("a", "resp_1", "response")
        assert await store.find_worker("a", "resp_1") is None


async def test_the_event_loop_goes_on_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path) as store, opened(path) as other:
        await store.add_file("a", "resp_1", URL, "response")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(store.add_file("a", "resp_2", URL, "response"))
            reading = asyncio.create_task(store.find_worker("a", "resp_2"))
            assert await other.find_worker("a", "resp_1") == URL
            assert not writing.done()
            db.execute("COMMIT")
            await writing
        assert await reading == URL, "who asks after a write finds it"
        assert await other.find_worker("a", "resp_2") == URL


async def test_a_write_is_done_though_its_caller_has_left(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path) as store:
        await store.add_file("a", "resp_1", URL, "response")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            writings = [
                asyncio.create_task(store.add_file("a", each, URL, "response"))
                for each in ("resp_2", "resp_3")
            ]
            await asyncio.sleep(0)
            for writing in writings:
                writing.cancel()
            await asyncio.gather(*writings, return_exceptions=True)
            db.execute("COMMIT")
        assert await store.find_worker("a", "resp_3") == URL


async def test_a_tenant_is_erased_and_a_missing_file_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    async with opened(path) as store:
        assert await store.erase(Subject("a")) == 0
        assert not path.exists()
        await store.add_file("a", "resp_1", URL, "response")
        await store.add_file("a", "file-1", URL, "file")
        await store.add_file("b", "file-2", URL, "file")
        assert await store.erase(Subject("a")) == 2
        assert (ids_in(path), ids_in(path, "b")) == ([], ["file-2"])


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "files.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    async with opened(path) as store:
        with pytest.raises(ValueError, match="another version of Radixway"):
            await store.add_file("a", "resp_1", URL, "response")
