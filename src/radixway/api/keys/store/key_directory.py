"""KeyDirectory: records and accounts in memory, and the keys by digest that requests are looked up by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING

from radixway.api.keys.store.access_store import SpendingRow, StoreChanges
from radixway.api.keys.store.errors import RecordNotFoundError
from radixway.api.keys.store.records import AccessRecord, KeyRecord, RecordT, TeamRecord, UserRecord
from radixway.core.config import DEFAULT_TENANT
from radixway.core.pipeline.contexts import match_both, model_pattern
from radixway.core.tenants import KeyAccess, KnownKey, SpendAccount, SpenderKind, SpendRows

if TYPE_CHECKING:
    from radixway.core.tenants import TenantService


class KeyDirectory:
    """The state of the store as of its last changes. Synchronous, of the event loop."""

    def __init__(self, tenants: TenantService, currency: str, clock: Callable[[], float]) -> None:
        """`tenants`: is given the keys and teams. `currency`: of all budgets."""
        self._tenants = tenants
        self.currency = currency
        self._clock = clock
        self.keys: dict[str, KeyRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.teams: dict[str, TeamRecord] = {}
        self.records: Mapping[str, dict[str, AccessRecord]] = {
            "key": self.keys,  # type: ignore[dict-item]  # each has its own type, and is filled by its kind
            "user": self.users,  # type: ignore[dict-item]
            "team": self.teams,  # type: ignore[dict-item]
        }
        self.accounts: dict[tuple[str, str], SpendAccount] = {}
        """By kind and id."""
        self.rows = SpendRows()
        self._spending: dict[tuple[str, str], SpendingRow] = {}
        self._known: dict[bytes, KnownKey] = {}
        self._digests: dict[str, tuple[bytes, ...]] = {}
        """Digests of each key in `_known`."""

    def require_record(self, kind: type[RecordT], id: str, param: str | None = None) -> RecordT:
        """Return the record `id`. Raises RecordNotFoundError naming `param`, by default the kind."""
        record = self.records[kind.kind].get(id)
        if not isinstance(record, kind):
            raise RecordNotFoundError(f"there is no {kind.kind} {id[:80]!r}", param=param or kind.kind)
        return record

    def list_records(self, kind: type[RecordT]) -> list[RecordT]:
        """Return all records of `kind`."""
        return [record for record in self.records[kind.kind].values() if isinstance(record, kind)]

    def tenant_of(self, key: KeyRecord) -> str:
        """Return the name of the tenant that `key` belongs to."""
        return key.team or DEFAULT_TENANT

    def apply_changes(self, changes: StoreChanges, pepper: bytes) -> None:
        """Take up `changes`, and give the tenants the keys that are there now."""
        now = self._clock()
        touched: set[tuple[str, str]] = set(changes.deleted)
        for kind, id in changes.deleted:
            self.records[kind].pop(id, None)
            self._spending.pop((kind, id), None)
            self.accounts.pop((kind, id), None)
        for record in changes.records:
            self.records[record.kind][record.id] = record
            touched.add((record.kind, record.id))
            self._account_of(record).set_limits(record.shown_name, record.limits, self.currency)
        for row in changes.spending:
            self._spending[row.kind, row.id] = row
            account = self.accounts.get((row.kind, row.id))
            if account is not None:
                account.load_spending(now, row.spent, row.resets_at)
        if not touched:
            return
        if changes.keys_required or self.teams:
            self._tenants.set_teams({team.id: team.models for team in self.teams.values()})
        has_new_teams = any(kind == "team" for kind, _ in touched)  # which keys of proxies may name
        for kind, id in touched:
            if kind == "key":
                self._forget_key(id)
        for key in self.keys.values():
            owners = ("key", key.id), ("user", key.user), ("team", key.team)
            if has_new_teams or any(owner in touched for owner in owners):
                self._forget_key(key.id)
                self._add_key(key)
        teams = {
            team.id: KnownKey(team.id, None, frozenset({"user"}), None, self._team_access(team))
            for team in self.teams.values()
            if team.id not in self._tenants.configured
        }
        self._tenants.ring.set_stored_keys(self._known, pepper, teams, needs_keys=changes.keys_required)

    def take_spenders(self) -> list[SpendAccount]:
        """Return the accounts that have something to save."""
        return [account for account in self.accounts.values() if account.has_unsaved]

    def spending_of(self, record: AccessRecord) -> tuple[float, float, float | None]:
        """Return what `record` has spent in its period and in all, and when that begins anew."""
        account = self.accounts.get((record.kind, record.id))
        row = self._spending.get((record.kind, record.id))
        total = 0.0 if row is None else row.total
        if account is None:
            return 0.0, total, None
        account.begin_due_period(self._clock())
        resets_at = None if account.resets_at == inf else account.resets_at
        return account.spent_now, total + account.unsaved, resets_at

    def spending_row(self, kind: str, id: str) -> SpendingRow | None:
        """Return what the store has of one's spending."""
        return self._spending.get((kind, id))

    def _account_of(self, record: AccessRecord) -> SpendAccount:
        kind: SpenderKind = record.kind
        account = self.accounts.get((kind, record.id))
        if account is None:
            account = SpendAccount(kind, record.id, record.shown_name, record.limits, self.currency)
            self.accounts[kind, record.id] = account
        return account

    def _team_access(self, team: TeamRecord) -> KeyAccess:
        return KeyAccess(
            "",
            [self._account_of(team)],
            self.rows,
            user_id=None,
            team_id=team.id,
            currency=self.currency,
            blocked="team" if team.blocked else None,
        )

    def _forget_key(self, id: str) -> None:
        for digest in self._digests.pop(id, ()):
            self._known.pop(digest, None)

    def _add_key(self, key: KeyRecord) -> None:
        """Let requests be known by `key`; not where its team is gone."""
        tenant = self.tenant_of(key)
        if tenant not in self._tenants.tenancies:
            return
        user = None if key.user is None else self.users.get(key.user)
        team = None if tenant in self._tenants.configured else self.teams.get(tenant)
        owners = [owner for owner in (key, user, team) if owner is not None]
        models = model_pattern(key.models)
        if user is not None:
            models = match_both(model_pattern(user.models), models)
        blocked = next((owner.kind for owner in owners if owner.blocked), None)
        accounts = [self._account_of(owner) for owner in owners]

        def known_until(expires_at: float | None) -> KnownKey:
            access = KeyAccess(
                key.id,
                accounts,
                self.rows,
                user_id=key.user,
                team_id=tenant,
                currency=self.currency,
                endpoints=key.endpoints,
                expires_at=expires_at,
                blocked=blocked,
            )
            return KnownKey(tenant, key.user, frozenset(key.scopes), models, access)

        known = {bytes.fromhex(key.digest): known_until(key.expires_at)}
        if key.old_digest is not None and key.old_until is not None:
            ends = [at for at in (key.old_until, key.expires_at) if at is not None]
            known[bytes.fromhex(key.old_digest)] = known_until(min(ends))
        self._known |= known
        self._digests[key.id] = tuple(known)
