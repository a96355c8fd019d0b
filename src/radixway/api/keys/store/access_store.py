"""The database of keys, users, teams and what they spent: SQLite or PostgreSQL."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import case, delete, func, select, text, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.api.keys.store import schema
from radixway.api.keys.store.errors import AccessUnavailableError, RecordConflictError, RecordNotFoundError
from radixway.api.keys.store.migrations import FOLDER
from radixway.api.keys.store.records import RECORD_TYPES, AccessRecord, KeyRecord, RecordT
from radixway.chat.database import ChatDatabase, insert_into
from radixway.chat.database_outages import is_outage
from radixway.chat.migrations import migrate
from radixway.core.tenants import SpendKey, UsageTotals

log = logging.getLogger(__name__)

_PEPPER = "pepper"
_KEYS_REQUIRED = "keys_required"
_USAGE_KEYS = tuple(SpendKey.__struct_fields__)
_USAGE_FIGURES = tuple(each.name for each in fields(UsageTotals))


@dataclass(frozen=True, slots=True)
class SpendingRow:
    """What one key, user or team has spent, as the store has it."""

    kind: str
    id: str
    spent: float
    total: float
    resets_at: float | None
    soft_alert_at: float | None
    hard_alert_at: float | None


@dataclass(slots=True)
class SpendDelta:
    """What was spent at one gateway and is to be saved."""

    kind: str
    id: str
    spent: float
    """In the period that ends at `resets_at`."""
    late: float
    """In earlier ones."""
    resets_at: float | None


@dataclass(slots=True)
class StoreChanges:
    """What has changed since a revision."""

    keys_required: bool = False
    records: list[AccessRecord] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    """Kind and id."""
    spending: list[SpendingRow] = field(default_factory=list)


class RecordEdit:
    """One transaction that changes records. While it is open nobody else changes any."""

    def __init__(self, write: AsyncConnection, revision: int, spending_revision: int) -> None:
        self._write = write
        self._revision = revision
        self._spending_revision = spending_revision

    async def find_record(self, kind: type[RecordT], id: str) -> RecordT | None:
        """Return the record of `kind` with this `id`, if there is one."""
        table = schema.records.c
        found = select(table.body).where(table.kind == kind.kind, table.id == id, table.deleted.is_(False))
        body = (await self._write.execute(found)).scalar()
        return None if body is None else msgspec.json.decode(body, type=kind)

    async def list_keys(self) -> list[KeyRecord]:
        """Return every key."""
        table = schema.records.c
        found = select(table.body).where(table.kind == KeyRecord.kind, table.deleted.is_(False))
        return [msgspec.json.decode(row.body, type=KeyRecord) for row in await self._write.execute(found)]

    async def save_record(self, record: AccessRecord) -> None:
        """Add or replace `record`. Raises RecordConflictError: its alias or digest is another's."""
        table = schema.records.c
        if record.alias is not None:
            same = select(table.id).where(
                table.kind == record.kind, table.alias == record.alias, table.id != record.id
            )
            if (await self._write.execute(same)).first() is not None:
                raise RecordConflictError(
                    f"there is another {record.kind} with the alias {record.alias[:80]!r}", param="alias"
                )
        row = {
            "alias": record.alias,
            "digest": record.digest if isinstance(record, KeyRecord) else None,
            "body": msgspec.json.encode(record).decode(),
            "revision": self._revision,
            "deleted": False,
        }
        statement = (
            insert_into(self._write, schema.records)
            .values(kind=record.kind, id=record.id, **row)
            .on_conflict_do_update(index_elements=["kind", "id"], set_=row)
        )
        try:
            await self._write.execute(statement)
        except IntegrityError:
            raise RecordConflictError("this key exists already", param="key") from None
        if isinstance(record, KeyRecord):
            required = {"name": _KEYS_REQUIRED, "value": "1"}
            await self._write.execute(
                insert_into(self._write, schema.settings).values(**required).on_conflict_do_nothing()
            )

    async def delete_record(self, kind: str, id: str) -> None:
        """Delete a record and what it spent. Raises RecordNotFoundError."""
        table = schema.records.c
        gone = (
            update(schema.records)
            .where(table.kind == kind, table.id == id, table.deleted.is_(False))
            .values(alias=None, digest=None, body="", revision=self._revision, deleted=True)
        )
        if not (await self._write.execute(gone)).rowcount:
            raise RecordNotFoundError(f"there is no {kind} {id[:80]!r}", param=kind)
        spent = schema.spending.c
        await self._write.execute(delete(schema.spending).where(spent.kind == kind, spent.id == id))

    async def set_spending(
        self,
        record: AccessRecord,
        *,
        resets_at: float | None,
        spent: float | None = None,
        total: float | None = None,
    ) -> None:
        """Set when the spending of `record` begins anew, and what it is; its alerts may be sent again.

        `total`: of all periods, set for a new record: an earlier one of its id may have left some.
        """
        row: dict[str, Any] = {"resets_at": resets_at, "revision": self._spending_revision}
        row |= {"soft_alert_at": None, "hard_alert_at": None}
        given = {"spent": spent, "total": total}
        changed = row | {name: amount for name, amount in given.items() if amount is not None}
        statement = insert_into(self._write, schema.spending).values(
            kind=record.kind, id=record.id, spent=spent or 0.0, total=0.0, **row
        )
        await self._write.execute(
            statement.on_conflict_do_update(index_elements=["kind", "id"], set_=changed)
        )


class AccessStore:
    """Reads and writes the database. Raises AccessUnavailableError where it does not answer."""

    def __init__(self, url: str) -> None:
        """`url`: as `ChatDatabase` takes it. Raises ValueError."""
        self._database = ChatDatabase(url, connections=2)
        self.pepper = b""
        """Secret under which keys are digested; known once it is open."""
        self._opening = asyncio.Lock()
        self._is_open = False
        self._records_seen = 0
        self._spending_seen = 0

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._database.kind

    @property
    def exists(self) -> bool:
        """Whether there may be something in it: a file that is not there is made with the first change."""
        url = self._database.url
        return self._is_open or not self._database.is_sqlite or Path(url.database or "").exists()

    async def open(self) -> None:
        """Make or update the tables, the first time.

        Raises AccessUnavailableError, ValueError (of a later version).
        """
        async with self._opening:
            if not self._is_open:
                await self._open()
                self._is_open = True

    async def _open(self) -> None:
        from alembic.util import CommandError

        if self._database.is_sqlite and self._database.url.database:
            Path(self._database.url.database).parent.mkdir(parents=True, exist_ok=True)
        async with _translate_errors():
            try:
                await migrate(self._database, folder=FOLDER)
            except CommandError as error:
                raise ValueError(f"the database of keys is another version's: {error}") from None
            async with self._database.write_transaction() as write:
                first = {"name": _PEPPER, "value": secrets.token_hex(32)}
                insert = insert_into(write, schema.settings).values(**first).on_conflict_do_nothing()
                await write.execute(insert)
                for name in ("records", "spending"):
                    start = insert_into(write, schema.revisions).values(name=name, revision=0)
                    await write.execute(start.on_conflict_do_nothing())
            found = select(schema.settings.c.value).where(schema.settings.c.name == _PEPPER)
            self.pepper = bytes.fromhex((await self._database.fetch_scalars(found))[0])

    async def close(self) -> None:
        """Close every connection."""
        await self._database.aclose()

    @asynccontextmanager
    async def edit_records(self) -> AsyncIterator[RecordEdit]:
        """Open a transaction that changes records."""
        await self.open()
        async with _translate_errors(), self._database.write_transaction() as write:
            revision = await _next_revision(write, "records")
            yield RecordEdit(write, revision, await _next_revision(write, "spending"))

    async def read_changes(self) -> StoreChanges | None:
        """Return what has changed since the last call; None: nothing."""
        if not self.exists:
            return None
        await self.open()
        async with _translate_errors():
            table = schema.revisions.c
            found = await self._database.fetch_all(select(table.name, table.revision))
            last = dict(iter(found))
            if last["records"] == self._records_seen and last["spending"] == self._spending_seen:
                return None
            changes = StoreChanges()
            required = select(schema.settings.c.value).where(schema.settings.c.name == _KEYS_REQUIRED)
            changes.keys_required = bool(await self._database.fetch_scalars(required))
            row = schema.records.c
            wanted = select(row.kind, row.id, row.body, row.deleted).where(row.revision > self._records_seen)
            for kind, id, body, is_deleted in await self._database.fetch_all(wanted):
                if is_deleted:
                    changes.deleted.append((kind, id))
                else:
                    changes.records.append(msgspec.json.decode(body, type=RECORD_TYPES[kind]))
            columns = [schema.spending.c[each.name] for each in fields(SpendingRow)]
            spent = select(*columns).where(schema.spending.c.revision > self._spending_seen)
            changes.spending = [SpendingRow(*row) for row in await self._database.fetch_all(spent)]
            self._records_seen, self._spending_seen = last["records"], last["spending"]
            return changes

    async def add_spending(self, deltas: Sequence[SpendDelta], rows: Mapping[SpendKey, UsageTotals]) -> None:
        """Add `deltas` to what is spent and `rows` to the usage, in one transaction."""
        async with _translate_errors(), self._database.write_transaction() as write:
            revision = await _next_revision(write, "spending")
            for delta in sorted(deltas, key=lambda delta: (delta.kind, delta.id)):
                await write.execute(_add_delta(write, delta, revision))
            if not rows:
                return
            insert = insert_into(write, schema.usage)
            add = insert.on_conflict_do_update(
                index_elements=list(_USAGE_KEYS),
                set_={name: schema.usage.c[name] + insert.excluded[name] for name in _USAGE_FIGURES},
            )
            values = [
                dict(zip(_USAGE_KEYS, msgspec.structs.astuple(key), strict=True))
                | dict(zip(_USAGE_FIGURES, astuple(figures), strict=True))
                for key, figures in sorted(rows.items(), key=lambda row: msgspec.structs.astuple(row[0]))
            ]
            await write.execute(add, values)

    async def claim_alert(self, kind: str, id: str, event: str, now: float) -> bool:
        """Claim the alert `event` (`soft`, `hard`) of this period; False: it is claimed already."""
        at = schema.spending.c[f"{event}_alert_at"]
        claim = (
            update(schema.spending)
            .where(schema.spending.c.kind == kind, schema.spending.c.id == id, at.is_(None))
            .values({at.name: now})
        )
        async with _translate_errors():
            return await self._database.execute(claim) == 1

    async def release_alert(self, kind: str, id: str, event: str) -> None:
        """Give back a claimed alert that could not be sent."""
        at = schema.spending.c[f"{event}_alert_at"]
        async with _translate_errors(), self._database.write_transaction() as write:
            revision = await _next_revision(write, "spending")
            release = (
                update(schema.spending)
                .where(schema.spending.c.kind == kind, schema.spending.c.id == id)
                .values({at.name: None, "revision": revision})
            )
            await write.execute(release)

    async def sum_usage(
        self, by: Sequence[str], first: str, last: str, wanted: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Sum usage by columns of the table `usage`, and always by currency, from the day `first` to `last`.

        `wanted`: values that columns must have.
        """
        table = schema.usage.c
        keys = [table[name] for name in dict.fromkeys((*by, "currency"))]
        sums = [func.sum(table[name]).label(name) for name in _USAGE_FIGURES]
        statement = (
            select(*keys, *sums)
            .where(table.day >= first, table.day <= last, *(table[k] == v for k, v in wanted.items()))
            .group_by(*keys)
            .order_by(*keys)
        )
        await self.open()
        async with _translate_errors():
            found = await self._database.fetch_all(statement)
        return [
            {key.name: row[at] for at, key in enumerate(keys)}
            | {
                name: float(row._mapping[name]) if name == "cost" else int(row._mapping[name])
                for name in _USAGE_FIGURES
            }
            for row in found
        ]

    async def erase_user(self, team: str, user: str | None) -> int:
        """Forget in the usage who the user of `team` was; None: all of the team. Return the rows."""
        table = schema.usage.c
        if not self.exists:
            return 0
        await self.open()
        whose = [table.team_id == team] + ([] if user is None else [table.user_id == user])
        async with _translate_errors():
            return await self._database.execute(delete(schema.usage).where(*whose))


async def _next_revision(write: AsyncConnection, name: str) -> int:
    table = schema.revisions
    statement = (
        update(table)
        .where(table.c.name == name)
        .values(revision=table.c.revision + 1)
        .returning(table.c.revision)
    )
    revision: int = (await write.execute(statement)).scalar_one()
    return revision


def _add_delta(write: AsyncConnection, delta: SpendDelta, revision: int) -> Any:
    table = schema.spending.c
    ends = delta.resets_at or 0.0
    own = func.coalesce(table.resets_at, 0.0)
    is_newer = table.resets_at < ends  # then this is the first in a new period; never where there is none
    spent = case(
        (own == ends, table.spent + delta.spent), (is_newer, text(repr(delta.spent))), else_=table.spent
    )
    insert = insert_into(write, schema.spending).values(
        kind=delta.kind,
        id=delta.id,
        spent=delta.spent,
        total=delta.spent + delta.late,
        resets_at=delta.resets_at,
        revision=revision,
    )
    return insert.on_conflict_do_update(
        index_elements=["kind", "id"],
        set_={
            "spent": spent,
            "total": table.total + delta.spent + delta.late,
            "resets_at": case((is_newer, text(repr(ends))), else_=table.resets_at),
            "soft_alert_at": case((is_newer, text("NULL")), else_=table.soft_alert_at),
            "hard_alert_at": case((is_newer, text("NULL")), else_=table.hard_alert_at),
            "revision": revision,
        },
    )


@asynccontextmanager
async def _translate_errors() -> AsyncIterator[None]:
    """Raise AccessUnavailableError where the database does not answer."""
    try:
        yield
    except SQLAlchemyError as error:
        if is_outage(error):
            raise AccessUnavailableError("the database of keys does not answer; try again") from error
        raise
