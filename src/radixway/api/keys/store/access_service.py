"""AccessService: the keys, users, teams and budgets of the store, as of now, and all that changes them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from radixway.api.keys.store.access_store import AccessStore, RecordEdit, SpendDelta
from radixway.api.keys.store.budget_alerts import BudgetAlertSender
from radixway.api.keys.store.changes import (
    AccessChanges,
    KeyChanges,
    OwnerChanges,
    UserChanges,
    parse_duration,
)
from radixway.api.keys.store.errors import AccessUnavailableError, RecordConflictError, RecordNotFoundError
from radixway.api.keys.store.key_directory import KeyDirectory
from radixway.api.keys.store.records import (
    AccessRecord,
    KeyRecord,
    RecordT,
    TeamMember,
    TeamRecord,
    UserRecord,
)
from radixway.chat.notifications import wait_for_event
from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import DEFAULT_TENANT, ConfigError
from radixway.core.config.keys import KeysConfig
from radixway.core.config.tenants import check_tenant_name
from radixway.core.pipeline import BadRequest
from radixway.core.tenants import BudgetPeriod, SpendKey, UsageTotals, digest_key

if TYPE_CHECKING:
    from radixway.core.tenants import TenantService

log = logging.getLogger(__name__)

_KEY_PREFIX = "sk-"


class AccessService(Component):
    """Belongs to one event loop. Every change is written first, and then holds here; elsewhere it holds
    within `sync_s`.
    """

    name = "keys"
    erasable_by = frozenset({"tenant", "user"})

    def __init__(
        self, config: KeysConfig, url: str, tenants: TenantService, clock: Callable[[], float] = time
    ) -> None:
        """`url`: of the database. `clock`: seconds since the epoch. Raises ConfigError."""
        try:
            self.store = AccessStore(url)
        except ValueError as error:
            raise ConfigError(f"keys.database: {error}") from None
        self._sync_s = config.sync_s
        self._clock = clock
        self.directory = KeyDirectory(tenants, config.currency, clock)
        self._tenants = tenants
        self._alerts = BudgetAlertSender(config.alerts, self.store, clock)
        self._syncing = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsaved_rows: dict[SpendKey, UsageTotals] = {}
        self._problem: str | None = None

    async def start(self) -> None:
        """Open the store and take up what is in it. Raises ConfigError."""
        try:
            await self.sync()
        except (ValueError, OSError, AccessUnavailableError) as error:
            await self.store.close()
            cause = error.__cause__ or error
            raise ConfigError(f"keys.database cannot be used: {cause}") from None
        self._task = asyncio.create_task(self._keep_in_sync())

    async def stop(self) -> None:
        """Write what was spent, and close the store."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        with suppress(AccessUnavailableError):
            await self.sync()
        await self._alerts.stop()
        await self.store.close()

    def describe(self) -> dict[str, Any]:
        """Describe how many there are, and why the store cannot be written."""
        counts = {f"{kind}s": len(records) for kind, records in self.directory.records.items()}
        return counts | {"database": self.store.kind} | ({"error": self._problem} if self._problem else {})

    async def erase(self, subject: Subject) -> int:
        """Delete the keys and the usage of a tenant or its user, and the user or team itself."""
        if subject.session is not None or subject.request is not None:
            return 0
        directory, user = self.directory, subject.user
        if not self.store.exists:
            return 0
        try:
            await self.sync()
            async with self.store.edit_records() as edit:
                keys = await edit.list_keys()
                doomed = [
                    key
                    for key in keys
                    if directory.tenant_of(key) == subject.tenant and user in (None, key.user)
                ]
                elsewhere = any(key.user == user for key in keys if key not in doomed)
                for key in doomed:
                    await edit.delete_record("key", key.id)
                if user is None and subject.tenant in directory.teams:
                    await edit.delete_record("team", subject.tenant)
                elif user in directory.users and not elsewhere:
                    await edit.delete_record("user", user or "")
            await self.sync()
            return len(doomed) + await self.store.erase_user(subject.tenant, user)
        except AccessUnavailableError as error:
            raise CannotErase("the database of keys does not answer") from error

    # Keys, teams and users

    async def create_key(self, changes: KeyChanges) -> tuple[KeyRecord, str]:
        """Create a key; return it with its text, which is stored nowhere. Raises BadRequest,
        RecordConflictError, AccessUnavailableError."""
        async with self.store.edit_records() as edit:
            made = await self._add_key(edit, changes)
        await self.sync()
        return made

    async def create_owner(self, kind: type[RecordT], changes: OwnerChanges) -> RecordT:
        """Create a team or user. Raises as `create_key`."""
        async with self.store.edit_records() as edit:
            record = await self._add_owner(edit, kind, changes)
        await self.sync()
        return record

    async def create_user(
        self, changes: UserChanges, teams: Sequence[str], key_changes: KeyChanges | None
    ) -> tuple[UserRecord, tuple[KeyRecord, str] | None]:
        """Create a user, a member of `teams`, with a key if `key_changes` are given: all of it or nothing.

        Raises as `create_key`, and RecordNotFoundError naming `teams`.
        """
        made = None
        async with self.store.edit_records() as edit:
            user = await self._add_owner(edit, UserRecord, changes)
            for team in teams:
                await self._edit_members(edit, team, [TeamMember(user.id)], param="teams")
            if key_changes is not None:
                key_changes.user = user.id
                made = await self._add_key(edit, key_changes)
        await self.sync()
        return user, made

    async def update_record(self, kind: type[RecordT], id: str, changes: AccessChanges) -> RecordT:
        """Change the record `id`. Raises RecordNotFoundError, and as `create_key`."""
        if isinstance(changes, KeyChanges) and changes.key is not None:
            raise BadRequest("key: a key's text changes by rotating it", param="key")
        if isinstance(changes, OwnerChanges) and changes.id not in (None, id):
            raise BadRequest(f"id: a {kind.kind} keeps its id", param="id")
        async with self.store.edit_records() as edit:
            record = await _require(edit, kind, id)
            await self._change_record(edit, record, changes, self._clock())
        await self.sync()
        return record

    async def rotate_key(self, id: str, grace: str | None, changes: KeyChanges) -> tuple[KeyRecord, str]:
        """Replace the text of the key `id`; the old one works for the duration `grace` more.

        What it spent, its id and, but for `changes`, its limits stay. Raises as `update_record`.
        """
        now = self._clock()
        old_until = None if not grace else parse_duration(grace, "grace").after(now)
        async with self.store.edit_records() as edit:
            key = await _require(edit, KeyRecord, id)
            key.old_digest, key.old_until = (key.digest, old_until) if old_until else (None, None)
            text = self._set_text(key, changes.key)
            key.rotated_at = now
            await self._change_record(edit, key, changes, now)
        await self.sync()
        return key, text

    async def change_members(
        self, team_id: str, added: Sequence[TeamMember], removed: Sequence[str] = ()
    ) -> TeamRecord:
        """Add members to a team, or give them another role, and remove others. Raises as `update_record`."""
        async with self.store.edit_records() as edit:
            team = await self._edit_members(edit, team_id, added, removed)
        await self.sync()
        return team

    async def delete_records(self, kind: type[AccessRecord], ids: Sequence[str]) -> list[KeyRecord]:
        """Delete keys, or users or teams with all their keys; all or none. Return the keys that are gone.

        Raises RecordNotFoundError.
        """
        ids = list(dict.fromkeys(ids))
        column = "id" if kind is KeyRecord else kind.kind
        async with self.store.edit_records() as edit:
            doomed = [key for key in await edit.list_keys() if getattr(key, column) in ids]
            for id in ids:
                await edit.delete_record(kind.kind, id)
            for key in doomed if kind is not KeyRecord else ():
                await edit.delete_record("key", key.id)
        await self.sync()
        return doomed

    def find_key(self, given: str) -> KeyRecord | None:
        """Return the key whose text or id `given` is."""
        if (known := self.directory.keys.get(given)) is not None:
            return known
        digest = digest_key(given.encode(), self.store.pepper).hex()
        return next((key for key in self.directory.keys.values() if key.digest == digest), None)

    async def _add_key(self, edit: RecordEdit, changes: KeyChanges) -> tuple[KeyRecord, str]:
        now = self._clock()
        key = KeyRecord(id=f"key-{secrets.token_hex(8)}", digest="", shown="", created_at=now)
        text = self._set_text(key, changes.key)
        await self._add_record(edit, key, changes, now)
        return key, text

    async def _add_owner(self, edit: RecordEdit, kind: type[RecordT], changes: OwnerChanges) -> RecordT:
        now = self._clock()
        is_team = kind is TeamRecord
        record = kind(id=changes.id or _new_id(changes.alias if is_team else None), created_at=now)
        if is_team and (record.id in self._tenants.configured or record.id == DEFAULT_TENANT):
            raise RecordConflictError(f"the tenant {record.id!r} is configured in a file", param="id")
        if await edit.find_record(kind, record.id) is not None:
            raise RecordConflictError(f"there is a {kind.kind} {record.id[:80]!r}", param="id")
        await self._add_record(edit, record, changes, now)
        return record

    async def _add_record(
        self, edit: RecordEdit, record: AccessRecord, changes: AccessChanges, now: float
    ) -> None:
        changes.apply_to(record, now)
        await self._check_team(edit, record)
        await edit.save_record(record)
        spent = changes.spend if isinstance(changes.spend, float) else 0.0
        await edit.set_spending(record, resets_at=_period_end(record, now), spent=spent, total=0.0)

    async def _change_record(
        self, edit: RecordEdit, record: AccessRecord, changes: AccessChanges, now: float
    ) -> None:
        before = record.budget_duration
        changes.apply_to(record, now)
        await self._check_team(edit, record)
        await edit.save_record(record)
        await self._save_spending(edit, record, changes, before, now)

    async def _edit_members(
        self,
        edit: RecordEdit,
        team_id: str,
        added: Sequence[TeamMember],
        removed: Sequence[str] = (),
        param: str = "team",
    ) -> TeamRecord:
        team = await _require(edit, TeamRecord, team_id, param)
        members = {member.user_id: member for member in [*team.members, *added]}
        team.members = [member for id, member in members.items() if id not in removed]
        team.updated_at = self._clock()
        await edit.save_record(team)
        return team

    async def _save_spending(
        self,
        edit: RecordEdit,
        record: AccessRecord,
        changes: AccessChanges,
        before: str | None,
        now: float,
    ) -> None:
        """Save what a change of budgets means for the period, the spending and the alerts."""
        given = (changes.max_budget, changes.soft_budget, changes.budget_duration, changes.spend)
        if all(value is UNSET for value in given):
            return
        account = self.directory.accounts.get((record.kind, record.id))
        resets_at = _period_end(record, now)
        if account is not None and record.budget_duration == before and resets_at is not None:
            account.begin_due_period(now)
            resets_at = account.resets_at if account.resets_at != float("inf") else resets_at
        spent = changes.spend if isinstance(changes.spend, float) else None
        await edit.set_spending(record, resets_at=resets_at, spent=spent)

    def _set_text(self, key: KeyRecord, given: str | None) -> str:
        """Have `key` known by the text `given`, or one that is made up; return it.

        Raises RecordConflictError: another key has that text, or this or another had it before.
        """
        text = given or _KEY_PREFIX + secrets.token_urlsafe(32)
        digest = digest_key(text.encode(), self.store.pepper).hex()
        others = self.directory.keys.values() if given else ()
        if any(digest in (other.digest, other.old_digest) for other in others):
            raise RecordConflictError("this key exists already", param="key")
        key.digest, key.shown = digest, f"{_KEY_PREFIX}…{text[-4:]}"
        return text

    async def _check_team(self, edit: RecordEdit, record: AccessRecord) -> None:
        """Check that there is a key's team. A user need not be known: then it is a label."""
        team = record.team if isinstance(record, KeyRecord) else None
        if team is None or team in self._tenants.configured:
            return
        if await edit.find_record(TeamRecord, team) is None:
            raise BadRequest(f"team: there is no team {team[:80]!r}", param="team")

    # The store

    async def sync(self) -> None:
        """Write what was spent here, and take up what has changed. Raises AccessUnavailableError."""
        async with self._syncing:
            await self._save_spent()
            changes = await self.store.read_changes()
            self._problem = None
            if changes is not None:
                self.directory.apply_changes(changes, self.store.pepper)
                self._alerts.check_budgets(self.directory, changes.spending)

    def spending_of(self, record: AccessRecord) -> tuple[float, float, float | None]:
        """Return what `record` has spent in its period and in all, and when that begins anew."""
        return self.directory.spending_of(record)

    async def _save_spent(self) -> None:
        directory = self.directory
        taken = [(account, account.take_unsaved()) for account in directory.take_spenders()]
        for key, figures in directory.rows.take_rows().items():
            self._unsaved_rows.setdefault(key, UsageTotals()).add_totals(figures)
        rows = self._unsaved_rows
        if not taken and not rows:
            return
        deltas = [
            SpendDelta(
                account.kind,
                account.id,
                spent,
                late,
                None if account.resets_at == float("inf") else account.resets_at,
            )
            for account, (spent, late) in taken
        ]
        try:
            await self.store.add_spending(deltas, rows)
        except BaseException:
            for account, (_, late) in taken:
                account.restore_unsaved(late)
            raise
        self._unsaved_rows = {}
        for account, _ in taken:
            account.confirm_saved()

    async def _keep_in_sync(self) -> None:
        while not await wait_for_event(self._stopping, self._sync_s):
            try:
                await self.sync()
            except AccessUnavailableError as error:
                if self._problem is None:
                    log.warning("keys: %s; known keys still work", error)
                self._problem = str(error)
            except Exception:
                log.exception("keys could not be brought up to date")


def build_access_service(
    config: KeysConfig, home: Path, tenants: TenantService | None
) -> AccessService | None:
    """Return the service where `tenants` have a store; `home`: where its file is. Raises ConfigError."""
    if tenants is None or not tenants.has_store:
        return None
    return AccessService(config, config.database_url(home), tenants)


def _new_id(alias: object) -> str:
    """Return `alias` where a tenant may be called so, else an id that is made up."""
    if isinstance(alias, str):
        with suppress(ValueError):
            return check_tenant_name(alias)
    return str(uuid.uuid4())


def _period_end(record: AccessRecord, now: float) -> float | None:
    return None if record.budget_duration is None else BudgetPeriod(record.budget_duration).after(now)


async def _require(edit: RecordEdit, kind: type[RecordT], id: str, param: str = "") -> RecordT:
    record = await edit.find_record(kind, id)
    if record is None:
        raise RecordNotFoundError(f"there is no {kind.kind} {id[:80]!r}", param=param or kind.kind)
    return record
