"""A database with one user in it, and what works on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from radixway.chat.database import ChatDatabase
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.limits import ChatLimits
from radixway.chat.messages import AnswerRequest, MessageStore
from radixway.chat.records import Message
from radixway.chat.schema import chats, users

USER = "user-1"


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class House:
    """A database with one user, and what works on it."""

    database: ChatDatabase
    limits: ChatLimits = field(default_factory=lambda: ChatLimits(at_once=None))
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.messages = MessageStore(self.database, self.clock, self.limits)
        self.jobs = AnswerJobQueue(self.database, self.clock, lease_s=30, max_attempts=3)

    async def open(self) -> House:
        row = {"id": USER, "tenant": "default", "provider": "local", "provider_account_id": USER}
        async with self.database.write_transaction() as write:
            await write.execute(users.insert().values(**row, display_name="Eve", created_at=0.0))
        return self

    async def chat(self, chat_id: str = "chat-1") -> str:
        async with self.database.write_transaction() as write:
            await write.execute(
                chats.insert().values(id=chat_id, user_id=USER, created_at=0.0, modified_at=0.0)
            )
        return chat_id

    async def asked(self, queue: str = "q", priority: int = 0, waits_s: float | None = None) -> Message:
        """An answer that waits, in a chat of its own."""
        self._chats = getattr(self, "_chats", 0) + 1
        chat = await self.chat(f"chat-of-its-own-{self._chats}")
        said = await self.messages.write_question(USER, chat, None, "What is a radix tree?")
        question = AnswerRequest(said.id, queue, "m", {}, priority=priority, waits_s=waits_s)
        return (await self.messages.request_answer(USER, chat, question))[0]

    async def now(self, message: Message) -> Message:
        return await self.messages.find_message(USER, message.id)
