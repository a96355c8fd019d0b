"""How processes on one database hear of each other, by what there is."""

from __future__ import annotations

from pathlib import Path

from radixway.chat.database import Database
from radixway.chat.ids import new_id
from radixway.chat.shared.kept import Kept
from radixway.chat.shared.wakes import Carrier, SharedWake
from radixway.chat.tokens import MemoryLog, TokenLog
from radixway.chat.wake import LocalWake, Wake


def sharing(database: Database, redis: str | None, *, kept_s: float) -> tuple[TokenLog, Wake, Kept | None]:
    """Token logs, wakes, and how the connections of both are; None: there are none.

    `redis`: the URL of a Valkey or Redis server. `kept_s`: see `MemoryLog`. Raises ValueError: that URL.
    """
    process = new_id()
    if redis is not None:
        from radixway.chat.shared.valkey import ValkeyCarrier
        from radixway.chat.shared.valkey_log import ValkeyLog

        kept = Kept("valkey")
        tokens = ValkeyLog(redis, process, kept, kept_s=kept_s)
        return tokens, SharedWake(ValkeyCarrier(redis, process), kept), kept
    carrier = _of_database(database, process)
    if carrier is None:
        return MemoryLog(kept_s=kept_s), LocalWake(), None
    kept = Kept("files" if database.is_sqlite else "postgresql")
    return MemoryLog(kept_s=kept_s), SharedWake(carrier, kept), kept


def _of_database(database: Database, process: str) -> Carrier | None:
    """None: a database in memory is this process's alone."""
    if not database.is_sqlite:
        from radixway.chat.shared.postgres import PostgresCarrier

        return PostgresCarrier(database.url, process)
    file = database.url.database
    if not file or file == ":memory:":
        return None
    from radixway.chat.shared.files import FileCarrier

    return FileCarrier(Path(f"{file}-bells"), process)
