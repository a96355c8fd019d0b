"""How much is too much, of answers, tokens and messages: asked in the transaction that would go beyond it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.budgets import TokenBudget, counted_tokens
from radixway.chat.errors import ChatLimitExceededError, ChatQueueFullError, ChatTooLargeError
from radixway.chat.rates import AnswerRate
from radixway.chat.schema import jobs, messages
from radixway.chat.statements import READY


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """How much is too much; None: nothing is."""

    at_once: int | None = 3
    """Answers that a user may have under way."""
    waiting: int | None = None
    """Jobs that may wait in one queue."""
    messages: int | None = None
    """In a chat."""
    characters: int | None = None
    """In a message."""
    rate: AnswerRate | None = None
    """Of answers that a user asks for."""
    tokens: int | None = None
    """That a chat's prompts and answers may have used, as workers counted them."""
    budget: TokenBudget | None = None
    """Of tokens, for each user."""

    async def check_answer_share(self, write: AsyncConnection, user_id: str, queue: str, now: float) -> None:
        """Of answers, for one more. Raises ChatLimitExceededError, ChatQueueFullError.

        Calls of one user at the same moment are counted one by one: the rate's row is their lock.
        """
        if self.rate is not None:
            await self.rate.spend_answer(write, user_id, now)
        if self.at_once is not None:
            alive = (await write.execute(statements.ALIVE_OF, {"user": user_id})).scalar_one()
            if alive >= self.at_once:
                raise ChatLimitExceededError(f"{self.at_once} answers at a time; wait for one of them")
        if self.budget is not None:
            await self.budget.check_budget(write, user_id, now)
        if self.waiting is not None:
            in_queue = select(func.count()).where(jobs.c.queue == queue, jobs.c.state == READY)
            if (await write.execute(in_queue)).scalar_one() >= self.waiting:
                raise ChatQueueFullError("The server is currently busy. Please try again later.")

    async def check_message_limits(self, write: AsyncConnection, chat_id: str) -> None:
        """For one more message. Raises ChatTooLargeError."""
        if self.messages is None:
            return
        count = select(func.count()).select_from(messages).where(messages.c.chat_id == chat_id)
        if (await write.execute(count)).scalar_one() >= self.messages:
            raise ChatTooLargeError("Maximum number of messages reached")

    async def check_chat_tokens(self, write: AsyncConnection, chat_id: str) -> None:
        """For one more answer. Raises ChatTooLargeError."""
        if self.tokens is None:
            return
        told = await write.execute(select(messages.c.usage).where(messages.c.chat_id == chat_id))
        used = sum(counted_tokens(usage) for usage in told.scalars())
        if used >= self.tokens:
            raise ChatTooLargeError(f"This chat has used its {self.tokens} tokens")
