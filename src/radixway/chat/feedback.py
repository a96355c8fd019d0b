"""Feedback on answers: votes, reports, and which of several was best."""

from collections.abc import Callable, Sequence
from typing import Literal

from sqlalchemy import func, select, update

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError, ChatRefusedError
from radixway.chat.ids import new_id
from radixway.chat.messages import own_message
from radixway.chat.records import MessageReport, Role
from radixway.chat.schema import evaluations, messages, reports

ReportType = Literal["spam", "offensive", "feedback"]


class AnswerFeedback:
    """Feedback of users on their own chats. Messages of other users are not found."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def vote_answer(self, user_id: str, message_id: str, score: int) -> None:
        """Set the `score` of an answer: -1, 0 or 1. Raises ChatNotFoundError, ChatRefusedError."""
        if score not in (-1, 0, 1):
            raise ChatRefusedError("score must be -1, 0 or 1")
        async with self._database.write_transaction() as write:
            message = await own_message(write, user_id, message_id)
            if message.role is not Role.ASSISTANT:
                raise ChatRefusedError("Only assistant messages can be voted on")
            await write.execute(update(messages).where(messages.c.id == message_id).values(score=score))

    async def report_message(
        self, user_id: str, message_id: str, report_type: ReportType, reason: str
    ) -> MessageReport:
        """Report `message_id` for `reason`. Raises ChatNotFoundError."""
        row = {"id": new_id(), "message_id": message_id, "report_type": report_type, "reason": reason}
        async with self._database.write_transaction() as write:
            await own_message(write, user_id, message_id)
            values = row | {"created_at": self._clock()}
            made = await write.execute(reports.insert().values(**values).returning(*reports.c))
            return MessageReport(**made.one()._mapping)

    async def rank_answers(self, user_id: str, message_id: str, inferior: Sequence[str]) -> None:
        """Record that `message_id` beats the answers `inferior` of its chat. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            best = await own_message(write, user_id, message_id)
            counted = select(func.count()).where(
                messages.c.chat_id == best.chat_id, messages.c.id.in_(inferior)
            )
            if (await write.execute(counted)).scalar_one() < len(set(inferior)):
                raise ChatNotFoundError("Message not found")
            await write.execute(
                evaluations.insert().values(
                    id=new_id(),
                    selected_message_id=message_id,
                    inferior_message_ids=list(inferior),
                    created_at=self._clock(),
                )
            )

    async def list_reports(self, message_id: str) -> list[MessageReport]:
        """Return the reports of `message_id` in the order of creation."""
        wanted = select(reports).where(reports.c.message_id == message_id).order_by(reports.c.id)
        return [MessageReport(**row._mapping) for row in await self._database.fetch_all(wanted)]

    async def list_chat_reports(self, chat_id: str) -> dict[str, list[MessageReport]]:
        """Return the reports of `chat_id` by message."""
        wanted = select(reports).join(messages).where(messages.c.chat_id == chat_id).order_by(reports.c.id)
        found: dict[str, list[MessageReport]] = {}
        for row in await self._database.fetch_all(wanted):
            found.setdefault(row.message_id, []).append(MessageReport(**row._mapping))
        return found
