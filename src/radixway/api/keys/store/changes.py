"""What calls may set of keys, users and teams, and how it is checked."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from radixway.api.keys.store.records import AccessRecord, KeyRecord, TeamMember
from radixway.core.config.tenants import Scope, check_tenant_name
from radixway.core.pipeline import BadRequest
from radixway.core.tenants import BudgetPeriod

PlainText = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Names are shown in terminals and logs, and PostgreSQL keeps no U+0000."""
_Text = Annotated[PlainText, Meta(min_length=1, max_length=256)]
_Texts = Annotated[list[_Text], Meta(max_length=256)]
_Amount = Annotated[float, Meta(ge=0, le=1e12)]
_Count = Annotated[int, Meta(ge=1, le=10**12)]
_MAX_METADATA_BYTES = 16_384
_MAX_METADATA_LEVELS = 32
ALL_MODELS = frozenset({"all-proxy-models", "all-team-models"})
"""LiteLLM's names for no limit of models; those of the team hold anyhow."""


class AccessChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What may be set of every kind; null takes a limit away."""

    alias: _Text | UnsetType | None = UNSET
    models: _Texts | UnsetType | None = UNSET
    max_budget: _Amount | UnsetType | None = UNSET
    soft_budget: _Amount | UnsetType | None = UNSET
    budget_duration: _Text | UnsetType | None = UNSET
    rpm_limit: _Count | UnsetType | None = UNSET
    tpm_limit: _Count | UnsetType | None = UNSET
    max_parallel_requests: _Count | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    blocked: bool | UnsetType | None = UNSET
    spend: _Amount | UnsetType | None = UNSET
    """What counts as spent in this period."""

    def apply_to(self, record: AccessRecord, now: float) -> None:
        """Set in `record` what is given. Raises BadRequest naming the field."""
        self._check()
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is UNSET or name == "id" or name not in record.__struct_fields__:
                continue
            if value is None:
                value = _EMPTY[name]() if name in _EMPTY else None
            setattr(record, name, value)
        record.updated_at = now

    def _check(self) -> None:
        if self.budget_duration:
            parse_duration(self.budget_duration, "budget_duration")
        if self.models:
            self.models = [name for name in self.models if name not in ALL_MODELS]
        if self.metadata and len(msgspec.json.encode(self.metadata)) > _MAX_METADATA_BYTES:
            raise BadRequest(f"metadata: at most {_MAX_METADATA_BYTES} bytes of JSON", param="metadata")
        if not _nests_within(self.metadata, _MAX_METADATA_LEVELS):
            raise BadRequest(f"metadata: at most {_MAX_METADATA_LEVELS} levels", param="metadata")


_EMPTY: dict[str, Callable[[], Any]] = {
    "models": list,
    "metadata": dict,
    "blocked": bool,
    "endpoints": list,
    "scopes": lambda: ["user"],
    "members": list,
}


class KeyChanges(AccessChanges, kw_only=True, forbid_unknown_fields=True):
    """What may be set of a key."""

    key: Annotated[str, Meta(min_length=16, max_length=256, pattern=r"^sk-[!-~]+$")] | None = None
    """A key to take, where it is not to be made up; begins with `sk-`. Only as it is created or rotated."""
    team: _Text | UnsetType | None = UNSET
    user: _Text | UnsetType | None = UNSET
    scopes: Annotated[list[_Text], Meta(min_length=1, max_length=8)] | UnsetType | None = UNSET
    endpoints: _Texts | UnsetType | None = UNSET
    duration: _Text | UnsetType | None = UNSET
    """How long it works from now on; null: for ever."""
    expires: _Text | UnsetType | None = UNSET
    """Until when it works, as a time of ISO 8601; null: for ever."""

    def apply_to(self, record: AccessRecord, now: float) -> None:
        super().apply_to(record, now)
        assert isinstance(record, KeyRecord)
        expires_at = self._expires_at(now)
        if expires_at is not UNSET:
            record.expires_at = expires_at

    def _expires_at(self, now: float) -> float | UnsetType | None:
        if self.duration is not UNSET and self.expires is not UNSET:
            raise BadRequest("give duration or expires", param="expires")
        if isinstance(self.duration, str):
            return parse_duration(self.duration, "duration").after(now)
        if isinstance(self.expires, str):
            try:
                at = datetime.fromisoformat(self.expires)
                ends = (at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
                datetime.fromtimestamp(ends, UTC)  # a float of the last year's end may be beyond it
                return ends
            except (ValueError, OverflowError):
                raise BadRequest(
                    f"expires: a time like 2026-12-31T00:00:00Z, not {self.expires[:40]!r}", param="expires"
                ) from None
        return UNSET if self.duration is UNSET and self.expires is UNSET else None

    def _check(self) -> None:
        super()._check()
        known: Sequence[str] = get_args(Scope)
        if self.scopes and (wrong := [scope for scope in self.scopes if scope not in known]):
            raise BadRequest(f"scopes: {', '.join(known)}, not {wrong[0][:40]!r}", param="scopes")
        for endpoint in self.endpoints or ():
            if not (endpoint.startswith("/") or endpoint in ("llm_api_routes", "openai_routes")):
                raise BadRequest(
                    f"endpoints: paths like /v1/chat/completions or /v1/*, not {endpoint[:60]!r}",
                    param="endpoints",
                )


class OwnerChanges(AccessChanges, kw_only=True, forbid_unknown_fields=True):
    """What may be set of a team and of a user."""

    id: _Text | None = None
    """A team's name as a tenant, or a user's; only as it is created."""


class TeamChanges(OwnerChanges, kw_only=True, forbid_unknown_fields=True):
    """What may be set of a team."""

    members: Annotated[list[TeamMember], Meta(max_length=10_000)] | UnsetType | None = UNSET

    def _check(self) -> None:
        super()._check()
        if self.id is not None:
            try:
                check_tenant_name(self.id)
            except ValueError as error:
                raise BadRequest(f"id: {error}", param="id") from None


class UserChanges(OwnerChanges, kw_only=True, forbid_unknown_fields=True):
    """What may be set of a user."""

    email: _Text | UnsetType | None = UNSET
    role: _Text | UnsetType | None = UNSET


def parse_duration(text: str, field: str) -> BudgetPeriod:
    """Parse a duration like `30d`. Raises BadRequest naming `field`."""
    try:
        return BudgetPeriod(text)
    except ValueError as error:
        raise BadRequest(f"{field}: {error}", param=field) from None


def _nests_within(value: Any, levels: int) -> bool:
    """Return whether `value`, of JSON, has at most `levels` of objects and lists and what is in them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_nests_within(each, levels - 1) for each in inner)
