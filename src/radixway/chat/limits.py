"""Limits per user and chat: of answers, tokens and messages.

Rates of answers and token budgets have one row for each user, counted in the transaction that they are about.
The row holds the time at which the user's share is whole again (GCRA, ITU-T I.371): an answer moves it on by
`per_s / times`, tokens by their share of the time, and it may be at most `per_s` from now. That is right in
all processes of one database. The length of an answer is known at its end alone, so the one that crosses the
budget is finished, and the next one refused until there is something left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Double, bindparam, case, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.completion_hooks import EndedAnswer
from radixway.chat.database import insert_into
from radixway.chat.errors import ChatLimitExceededError, ChatQueueFullError, ChatTooLargeError
from radixway.chat.schema import budgets, chats, jobs, messages, rates
from radixway.chat.statements import READY

_ROUNDING_S = 1e-6


def _spend_statement(insert: Any) -> Any:
    now: Any = bindparam("now", type_=Double)
    whole_at = case((rates.c.whole_at > now, rates.c.whole_at), else_=now) + bindparam("step_s", type_=Double)
    return (
        insert(rates)
        .values(user_id=bindparam("user_id"), whole_at=bindparam("whole_at"))
        .on_conflict_do_update(
            index_elements=[rates.c.user_id],
            set_={"whole_at": whole_at},
            where=whole_at <= bindparam("latest", type_=Double),
        )
        .returning(rates.c.whole_at)
    )


_SPEND = {"sqlite": _spend_statement(sqlite.insert), "postgresql": _spend_statement(postgresql.insert)}


@dataclass(frozen=True, slots=True)
class AnswerRate:
    """`times` in any `per_s`, which may come all at once."""

    times: int
    per_s: float

    async def spend_answer(self, write: AsyncConnection, user_id: str, now: float) -> None:
        """Count one answer of `user_id`. Raises ChatLimitExceededError with the time to retry."""
        step_s = self.per_s / self.times
        spent = {
            "user_id": user_id,
            "whole_at": now + step_s,
            "now": now,
            "step_s": step_s,
            "latest": now + self.per_s + _ROUNDING_S,
        }
        if (await write.execute(_SPEND[write.dialect.name], spent)).first() is None:
            wanted = select(rates.c.whole_at).where(rates.c.user_id == user_id)
            until = (await write.execute(wanted)).scalar_one() + step_s - self.per_s
            raise ChatLimitExceededError(
                f"{self.times} answers in {self.per_s:g} s", retry_after_s=until - now
            )


_CHARACTERS_PER_TOKEN = 4
"""Assumed where no count is known."""
_MAX_REPORTED_TOKENS = 10**9
"""The largest plausible token count of an answer."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """`tokens` in any `per_s`, prompts and answers together."""

    tokens: int
    per_s: float

    async def check_budget(self, write: AsyncConnection, user_id: str, now: float) -> None:
        """Check that `user_id` has tokens left. Raises ChatLimitExceededError with the time to retry."""
        wanted = select(budgets.c.whole_at).where(budgets.c.user_id == user_id)
        whole_at = (await write.execute(wanted)).scalar_one_or_none()
        if whole_at is not None and whole_at >= now + self.per_s:
            step_s = self.per_s / self.tokens
            raise ChatLimitExceededError(
                f"tokens_per_user: {self.tokens} tokens in {self.per_s:g} s are used up",
                retry_after_s=whole_at + step_s - (now + self.per_s),
            )

    async def spend_tokens(self, write: AsyncConnection, chat_id: str, tokens: int, now: float) -> None:
        """Charge `tokens` to the user of `chat_id`."""
        owner: str | None = (
            await write.execute(select(chats.c.user_id).where(chats.c.id == chat_id))
        ).scalar_one_or_none()
        if owner is not None:
            await self.charge_tokens(write, owner, tokens, now)

    async def charge_tokens(self, write: AsyncConnection, user_id: str, tokens: int, now: float) -> None:
        """Charge `tokens` to `user_id`."""
        if tokens <= 0:
            return
        used_s = tokens * self.per_s / self.tokens
        await write.execute(
            insert_into(write, budgets)
            .values(user_id=user_id, whole_at=now + used_s)
            .on_conflict_do_update(
                index_elements=[budgets.c.user_id],
                set_={"whole_at": case((budgets.c.whole_at > now, budgets.c.whole_at), else_=now) + used_s},
            )
        )


class BudgetAccounting:
    """Charges what answers use, as a completion hook."""

    def __init__(self, budget: TokenBudget, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._budget = budget
        self._clock = clock

    async def __call__(self, write: AsyncConnection, ended: EndedAnswer) -> None:
        """Charge the tokens of `ended` to its user; an answer that was never begun costs nothing."""
        tokens = reported_tokens(ended.usage)
        if tokens is None:
            if not ended.characters:
                return
            tokens = await self._estimate_answer(write, ended)
        await self._budget.spend_tokens(write, ended.chat_id, tokens, self._clock())

    async def _estimate_answer(self, write: AsyncConnection, ended: EndedAnswer) -> int:
        """Estimate the tokens of an answer that was cut off or whose worker does not count prompts: by
        characters, of its thread the question alone, since the rest may have been cut to fit.
        """
        wanted = select(messages.c.content).where(messages.c.id == ended.parent_id)
        question = (await write.execute(wanted)).scalar_one_or_none() or ""
        counted = _valid_count((ended.usage or {}).get("completion_tokens"))
        answer = _estimate_tokens(ended.characters) if counted is None else counted
        return answer + _estimate_tokens(len(question))


def reported_tokens(usage: dict[str, Any] | None) -> int | None:
    """Return prompt and completion tokens together, as a worker reported them in `usage`, or None."""
    if not usage:
        return None
    total = _valid_count(usage.get("total_tokens"))
    if total is not None:
        return total
    prompt, answer = _valid_count(usage.get("prompt_tokens")), _valid_count(usage.get("completion_tokens"))
    return None if prompt is None or answer is None else prompt + answer


def counted_tokens(usage: dict[str, Any] | None) -> int:
    """Return the tokens reported in `usage`: only the answer's, where prompts are not counted."""
    reported = reported_tokens(usage)
    return reported if reported is not None else _valid_count((usage or {}).get("completion_tokens")) or 0


def _estimate_tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _valid_count(value: Any) -> int | None:
    return min(value, _MAX_REPORTED_TOKENS) if isinstance(value, int) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """Limits on answers, messages and tokens; None: unlimited."""

    at_once: int | None = 3
    waiting: int | None = None
    messages: int | None = None
    characters: int | None = None
    rate: AnswerRate | None = None
    tokens: int | None = None
    """Tokens that a chat's prompts and answers may use, as workers count them."""
    budget: TokenBudget | None = None

    async def check_answer_share(self, write: AsyncConnection, user_id: str, queue: str, now: float) -> None:
        """Check the limits for one more answer in `queue`. Raises ChatLimitExceededError, ChatQueueFullError.

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
        """Check that `chat_id` has room for one more message. Raises ChatTooLargeError."""
        if self.messages is None:
            return
        count = select(func.count()).select_from(messages).where(messages.c.chat_id == chat_id)
        if (await write.execute(count)).scalar_one() >= self.messages:
            raise ChatTooLargeError("Maximum number of messages reached")

    async def check_chat_tokens(self, write: AsyncConnection, chat_id: str) -> None:
        """Check that `chat_id` has tokens left for one more answer. Raises ChatTooLargeError."""
        if self.tokens is None:
            return
        usages = await write.execute(select(messages.c.usage).where(messages.c.chat_id == chat_id))
        used = sum(counted_tokens(usage) for usage in usages.scalars())
        if used >= self.tokens:
            raise ChatTooLargeError(f"This chat has used its {self.tokens} tokens")
