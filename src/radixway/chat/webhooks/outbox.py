"""Events of webhooks, and their outbox: written in the transaction that an event is about, claimed by lease.

Events say what happened and to which chat, never the text. A delivery that is claimed is due again when its
lease ends, since its process may have died. Of one target and one chat only the first that waits is due, so
that events of a chat arrive in order.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.completion_hooks import EndedAnswer
from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.records import MessageState
from radixway.chat.schema import chats, deliveries, webhooks

WebhookEventType = Literal[
    "answer.completed",
    "answer.failed",
    "answer.cancelled",
    "chat.created",
    "chat.titled",
    "chat.deleted",
    "user.deleted",
    "webhook.test",
]
EVENTS: tuple[str, ...] = get_args(WebhookEventType)

_OF_STATE: dict[MessageState, WebhookEventType] = {
    MessageState.COMPLETE: "answer.completed",
    MessageState.CANCELLED: "answer.cancelled",
}
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event in a chat."""

    type: WebhookEventType
    chat_id: str
    """Events of one chat are delivered in order."""
    data: dict[str, Any] = field(default_factory=dict)

    def payload(self, user_id: str, at: float) -> str:
        """Return the body, as Standard Webhooks defines it. `at`: seconds since 1970."""
        data = {"user_id": user_id} | ({"chat_id": self.chat_id} if self.chat_id else {}) | self.data
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return _encode({"type": self.type, "timestamp": when, "data": data}).decode()


def ended(answer: EndedAnswer) -> WebhookEvent:
    """Return the event of `answer`, which has ended: one that timed out or lost its worker has failed."""
    return WebhookEvent(
        _OF_STATE.get(answer.state, "answer.failed"),
        answer.chat_id,
        {
            "message_id": answer.id,
            "parent_id": answer.parent_id,
            "state": answer.state.value,
            "model": answer.model,
            "finish_reason": answer.finish_reason,
            "usage": answer.usage,
        },
    )


WAITING, GIVEN_UP = "waiting", "given_up"


_OF_USER = select(webhooks.c.user_id, webhooks.c.id, webhooks.c.events).where(
    webhooks.c.user_id == bindparam("user"), webhooks.c.enabled
)
_OF_CHAT = (
    select(chats.c.user_id, webhooks.c.id, webhooks.c.events)
    .join_from(chats, webhooks, and_(webhooks.c.user_id == chats.c.user_id, webhooks.c.enabled), isouter=True)
    .where(chats.c.id == bindparam("chat"))
)
"""A chat's user with each of their webhooks, or once without any."""


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """A target in the configuration, which receives events of all users."""

    name: str
    url: str
    secret: bytes
    events: frozenset[str]
    """Empty: all."""

    @property
    def target(self) -> str:
        """The target of deliveries to it; no user's webhook has such an id."""
        return f"config:{self.name}"

    def __repr__(self) -> str:
        return f"Fixed({self.name!r})"


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A claimed event for one target."""

    number: int
    id: str
    target: str
    payload: str
    attempts: int
    attempt_id: str


class WebhookOutbox:
    """Deliveries of all processes that share the database."""

    def __init__(
        self,
        database: ChatDatabase,
        clock: Callable[[], float],
        fixed: Sequence[ConfiguredTarget] = (),
        *,
        lease_s: float = 60.0,
    ) -> None:
        """`clock`: seconds since 1970. `lease_s`: longer than any attempt takes."""
        self._database = database
        self._clock = clock
        self.fixed = {target.target: target for target in fixed}
        self._lease_s = lease_s
        self.on_news: Callable[[], None] = lambda: None
        """Called after a transaction that wrote a delivery."""

    async def put(self, write: AsyncConnection, user_id: str, event: WebhookEvent) -> None:
        """Write `event` for every target that wants it, if the transaction `write` is committed."""
        hooks = (await write.execute(_OF_USER, {"user": user_id})).all()
        await self.put_for(write, user_id, event, self._targets(hooks, event.type))

    async def put_for(
        self, write: AsyncConnection, user_id: str, event: WebhookEvent, targets: Collection[str]
    ) -> None:
        """Write `event` for `targets`."""
        if not targets:
            return
        now = self._clock()
        row = {
            "user_id": user_id,
            "chat_id": event.chat_id,
            "type": event.type,
            "payload": event.payload(user_id, now),
            "state": WAITING,
            "created_at": now,
            "available_at": now,
        }
        rows = [row | {"id": f"msg_{new_id()}", "target": target} for target in targets]
        await write.execute(deliveries.insert(), rows)
        self._database.call_after_commit(write, self.on_news)

    async def answer_ended(self, write: AsyncConnection, answer: EndedAnswer) -> None:
        """Write the event of `answer`, which ends: a completion hook."""
        hooks = (await write.execute(_OF_CHAT, {"chat": answer.chat_id})).all()
        if hooks:
            event = ended(answer)
            await self.put_for(write, hooks[0].user_id, event, self._targets(hooks, event.type))

    def _targets(self, hooks: Iterable[Row[Any, Any, Any]], type: str) -> list[str]:
        wants = [(hook.id, hook.events) for hook in hooks if hook.id is not None]
        wants += [(target.target, target.events) for target in self.fixed.values()]
        return [target for target, events in wants if not events or type in events]

    async def claim(self, limit: int, *, but: Collection[str] = ()) -> list[WebhookDelivery]:
        """Claim at most `limit` due deliveries, oldest first, and none for the targets `but`."""
        now = self._clock()
        earlier = deliveries.alias()
        first = ~(
            select(earlier.c.number)
            .where(
                earlier.c.target == deliveries.c.target,
                earlier.c.chat_id == deliveries.c.chat_id,
                earlier.c.number < deliveries.c.number,
                earlier.c.state == WAITING,
            )
            .exists()
        )
        is_due = deliveries.c.state == WAITING, deliveries.c.available_at <= now
        due = (
            select(deliveries.c.number)
            .where(*is_due, first, deliveries.c.target.not_in(but))
            .order_by(deliveries.c.number)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        take = (
            update(deliveries)
            .where(deliveries.c.number.in_(due.scalar_subquery()), *is_due)
            .values(
                available_at=now + self._lease_s,
                attempts=deliveries.c.attempts + 1,
                attempt_id=new_id(),
            )
            .returning(*(deliveries.c[name] for name in WebhookDelivery.__slots__))
        )
        async with self._database.write_transaction() as write:
            taken = [WebhookDelivery(**row._mapping) for row in await write.execute(take)]
        return sorted(taken, key=lambda delivery: delivery.number)

    async def delivered(self, delivery: WebhookDelivery) -> None:
        """Delete `delivery`, which has arrived."""
        async with self._database.write_transaction() as write:
            await write.execute(delete(deliveries).where(*_is_current(delivery)))
            await write.execute(
                update(webhooks).where(webhooks.c.id == delivery.target).values(delivered_at=self._clock())
            )

    async def failed(
        self, delivery: WebhookDelivery, error: str, status: int | None, again_in_s: float | None
    ) -> None:
        """Record that `delivery` failed. `again_in_s` None: it is given up, and kept as a record of that."""
        now = self._clock()
        values: dict[str, Any] = {"last_error": error, "last_status": status}
        if again_in_s is None:
            values |= {"state": GIVEN_UP, "available_at": now}
        else:
            values |= {"available_at": now + again_in_s}
        async with self._database.write_transaction() as write:
            await write.execute(update(deliveries).where(*_is_current(delivery)).values(**values))
            await write.execute(
                update(webhooks).where(webhooks.c.id == delivery.target).values(failed_at=now)
            )

    async def next_due(self) -> float | None:
        """Return when time alone next makes a delivery due; None: never."""
        wanted = select(func.min(deliveries.c.available_at)).where(
            deliveries.c.state == WAITING, deliveries.c.available_at > self._clock()
        )
        due: list[float | None] = await self._database.fetch_scalars(wanted)
        return due[0]

    async def forget(self, older_than_s: float) -> None:
        """Delete records of deliveries that were given up more than `older_than_s` seconds ago."""
        old = deliveries.c.state == GIVEN_UP, deliveries.c.available_at < self._clock() - older_than_s
        await self._database.execute(delete(deliveries).where(*old))


def _is_current(delivery: WebhookDelivery) -> tuple[ColumnElement[bool], ...]:
    return deliveries.c.number == delivery.number, deliveries.c.attempt_id == delivery.attempt_id
