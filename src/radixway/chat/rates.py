"""How often a user may ask: one row each, counted in the transaction that it is about.

The row holds the time at which the user's share is whole again (GCRA, ITU-T I.371): each answer moves it on
by `per_s / times`, and may not move it further than `per_s` from now. Right in all processes of one database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Double, bindparam, case, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.errors import ChatLimitExceededError
from radixway.chat.schema import rates

_TOLERANCE_S = 1e-6
"""Of sums of floats."""


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
        """Count one. Raises ChatLimitExceededError, which says when the next one may come."""
        step_s = self.per_s / self.times
        spent = {
            "user_id": user_id,
            "whole_at": now + step_s,
            "now": now,
            "step_s": step_s,
            "latest": now + self.per_s + _TOLERANCE_S,
        }
        if (await write.execute(_SPEND[write.dialect.name], spent)).first() is None:
            asked = select(rates.c.whole_at).where(rates.c.user_id == user_id)
            until = (await write.execute(asked)).scalar_one() + step_s - self.per_s
            raise ChatLimitExceededError(
                f"{self.times} answers in {self.per_s:g} s", retry_after_s=until - now
            )
