"""Statements of the hot path, built once: building one takes longer than SQLite needs to execute it.

Their parameters are what is named in `bindparam`, and columns to be written.
"""

from typing import Any

from sqlalchemy import Select, and_, bindparam, case, func, literal, or_, select, update

from radixway.chat.records import MessageState
from radixway.chat.schema import chats, jobs, messages, users

UNDER_WAY = (MessageState.PENDING, MessageState.IN_PROGRESS)
READY, LEASED, DEAD, BLOCKED = "ready", "leased", "dead", "blocked"


def _thread_statement() -> Select[Any]:
    above = (
        select(messages.c.id, messages.c.parent_id, literal(0).label("depth"))
        .where(messages.c.id == bindparam("message"))
        .cte(recursive=True)
    )
    parent = messages.alias()
    above = above.union_all(
        select(parent.c.id, parent.c.parent_id, above.c.depth + 1).join(
            above, parent.c.id == above.c.parent_id
        )
    )
    return select(messages).join(above, messages.c.id == above.c.id).order_by(above.c.depth.desc())


def _claim_statement() -> Any:
    now: Any = bindparam("now")
    first = (
        select(jobs.c.number)
        .where(
            jobs.c.state == READY,
            jobs.c.queue.in_(bindparam("queues", expanding=True)),
            jobs.c.available_at <= now,
            or_(jobs.c.deadline.is_(None), jobs.c.deadline > now),
        )
        .order_by(jobs.c.priority.desc(), jobs.c.number)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    return (
        update(jobs)
        .where(jobs.c.number == first.scalar_subquery(), jobs.c.state == READY)
        .values(state=LEASED, attempts=jobs.c.attempts + 1)
        .returning(jobs)
    )


USER = select(users).where(users.c.id == bindparam("user"))
OWN_CHAT = select(chats).where(chats.c.id == bindparam("chat"), chats.c.user_id == bindparam("user"))
OWN_CHAT_LOCKED = OWN_CHAT.with_for_update()
INSERT_CHAT = chats.insert().returning(*chats.c)
CHANGE_CHAT = update(chats).where(chats.c.id == bindparam("chat"))

MESSAGE = select(messages).where(messages.c.id == bindparam("message"))
OWN_MESSAGE = MESSAGE.join(chats).where(chats.c.user_id == bindparam("user"))
IN_CHAT = select(messages.c.id).where(messages.c.chat_id == bindparam("chat"))
FIRST_IN = IN_CHAT.limit(1)
PARENT_IN = select(messages.c.role, messages.c.state).where(
    messages.c.chat_id == bindparam("chat"), messages.c.id == bindparam("message")
)
THREAD = _thread_statement()
"""A `message` and all above it, the first of its chat first."""
UNDER_WAY_IN = IN_CHAT.where(messages.c.state.in_(UNDER_WAY))
IS_UNDER_WAY = select(messages.c.id).where(
    messages.c.id == bindparam("message"), messages.c.state.in_(UNDER_WAY)
)
INSERT_MESSAGE = messages.insert().returning(*messages.c)
CHANGE_MESSAGE = update(messages).where(messages.c.id == bindparam("message"))
BEGIN_MESSAGE = CHANGE_MESSAGE.returning(messages.c.chat_id)
END_MESSAGE = CHANGE_MESSAGE.returning(*messages.c)

IN_THE_WAY = (
    select(jobs.c.message_id)
    .join(messages, messages.c.id == jobs.c.message_id)
    .where(messages.c.chat_id == bindparam("chat"), messages.c.parent_id != bindparam("parent"))
    .where(jobs.c.state.in_(bindparam("states", expanding=True)))
    .order_by(jobs.c.number)
    .with_for_update(of=jobs)
)
"""Answers to other messages than `parent` whose jobs are in these `states`, locked until the transaction
ends."""
INSERT_JOB = jobs.insert()
CLAIM = _claim_statement()
"""The first job of `queues` that may begin `now`; with the columns of its lease."""
_IS_CURRENT = and_(jobs.c.attempt_id == bindparam("attempt"), jobs.c.state == LEASED)
LEASED_MESSAGE = select(jobs.c.message_id).where(_IS_CURRENT).with_for_update()
"""The message of a current `attempt`, locked until the transaction ends."""
FIRST_TOKEN = (
    update(messages)
    .where(messages.c.id == LEASED_MESSAGE.scalar_subquery())
    .values(first_token_at=func.coalesce(messages.c.first_token_at, bindparam("now")))
    .returning(messages.c.id)
)
DELETE_LEASED = jobs.delete().where(_IS_CURRENT).returning(jobs.c.message_id)
"""Delete the job of a current `attempt`, whose message is locked until the transaction ends."""
QUEUE_OF = select(jobs.c.queue).where(jobs.c.message_id == bindparam("message"))
ALIVE_OF = (
    select(func.count())
    .select_from(jobs)
    .where(jobs.c.user_id == bindparam("user"), jobs.c.state.in_((READY, LEASED, BLOCKED)))
)
ORDER = (
    select(jobs.c.message_id)
    .where(jobs.c.state == READY, jobs.c.queue == bindparam("of_queue"))
    .order_by(jobs.c.priority.desc(), jobs.c.number)
)
TIMES = select(
    func.min(case((jobs.c.state == LEASED, jobs.c.lease_until))),
    func.min(case((jobs.c.state == READY, jobs.c.deadline))),
    func.min(
        case((and_(jobs.c.state == READY, jobs.c.available_at > bindparam("now")), jobs.c.available_at))
    ),
    func.count(case((jobs.c.state == BLOCKED, 1))),
)
"""Select the next ends of leases, timeouts and starts, and the number of blocked jobs."""
