import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from radixway.core.storage import open_sqlite, write_ahead


def mode(path: Path) -> str:
    connection = sqlite3.connect(path)
    (name,) = connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()
    return str(name)


def test_all_who_open_a_new_file_at_once_get_its_log(tmp_path: Path) -> None:
    def opened(path: Path) -> None:
        connection = sqlite3.connect(path)
        write_ahead(connection, 60)
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        for each in range(100):  # SQLite alone refuses one in twenty or so
            path = tmp_path / f"{each}.db"
            list(pool.map(opened, [path] * 8))
            assert mode(path) == "wal"


def test_it_waits_for_one_who_writes_without_a_log(tmp_path: Path) -> None:
    path = tmp_path / "held.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    comer = sqlite3.connect(path, check_same_thread=False, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        write_ahead(comer, 0.05)
    with ThreadPoolExecutor(1) as pool:
        switched = pool.submit(write_ahead, comer, 60)
        holder.execute("COMMIT")
        switched.result()
    holder.close()
    comer.close()
    assert mode(path) == "wal"


def test_what_is_no_database_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_bytes(b"no database at all" * 100)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        write_ahead(connection, 60)
    connection.close()


FIRST = ("CREATE TABLE things (name TEXT)",)
SECOND = ("ALTER TABLE things ADD COLUMN size INTEGER", "UPDATE things SET size = 0")


def test_a_file_has_each_migration_once_whoever_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "things.db"
    with ThreadPoolExecutor(8) as pool:
        for db in pool.map(lambda _: open_sqlite(path, (FIRST,)), range(8)):
            db.execute("INSERT INTO things VALUES ('a')")
            db.close()
        for db in pool.map(lambda _: open_sqlite(path, (FIRST, SECOND)), range(8)):
            assert db.execute("SELECT count(*), sum(size) FROM things").fetchone() == (8, 0)
            db.close()
    assert mode(path) == "wal"


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "things.db"
    open_sqlite(path, (FIRST,)).close()
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        open_sqlite(path, (FIRST, (SECOND[0], "UPDATE things SET weight = 0")))
    db = open_sqlite(path, (FIRST, SECOND))
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "things.db"
    open_sqlite(path, (FIRST, SECOND)).close()
    with pytest.raises(ValueError, match=r"written by another version of Radixway \(format 2\)"):
        open_sqlite(path, (FIRST,))


def test_a_file_without_a_log_overwrites_what_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "things.db"
    db = open_sqlite(path, (FIRST,), overwrites_deleted=True, has_write_ahead_log=False)
    db.execute("INSERT INTO things VALUES ('anna@example.org')")
    assert b"anna@example.org" in path.read_bytes()
    db.execute("DELETE FROM things")
    assert b"anna@example.org" not in path.read_bytes()
    db.close()
    assert mode(path) == "delete"
