import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from radixway.storage import write_ahead


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
