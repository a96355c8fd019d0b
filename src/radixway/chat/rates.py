"""How often a user may ask: one row each, counted in the transaction that it is about.

The row holds the time at which the user's share is whole again (GCRA, ITU-T I.371): each answer moves it on
by `per_s / times`, and may not move it further than `per_s` from now. Right in all processes of one database.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.errors import TooMany
from radixway.chat.schema import rates

_TOLERANCE_S = 1e-6
"""Of sums of floats."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`times` in any `per_s`, which may come all at once."""

    times: int
    per_s: float

    async def spend(self, write: AsyncConnection, user_id: str, now: float) -> None:
        """Count one. Raises TooMany, which says when the next one may come."""
        step_s = self.per_s / self.times
        insert = sqlite.insert if write.dialect.name == "sqlite" else postgresql.insert
        whole_at = case((rates.c.whole_at > now, rates.c.whole_at), else_=now) + step_s
        counted = (
            insert(rates)
            .values(user_id=user_id, whole_at=now + step_s)
            .on_conflict_do_update(
                index_elements=[rates.c.user_id],
                set_={"whole_at": whole_at},
                where=whole_at <= now + self.per_s + _TOLERANCE_S,
            )
            .returning(rates.c.whole_at)
        )
        if (await write.execute(counted)).first() is None:
            asked = select(rates.c.whole_at).where(rates.c.user_id == user_id)
            until = (await write.execute(asked)).scalar_one() + step_s - self.per_s
            raise TooMany(f"{self.times} answers in {self.per_s:g} s", retry_after_s=until - now)
