"""Keys, users and teams as the store keeps them, in JSON."""

from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from radixway.core.tenants import SpenderKind, SpendLimits


class AccessRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What keys, users and teams have in common."""

    kind: ClassVar[SpenderKind]

    id: str
    alias: str | None = None
    """A name for people; no two of a kind share one."""
    models: list[str] = []
    """Names or patterns of the models that may be used; empty: all."""
    max_budget: float | None = None
    soft_budget: float | None = None
    budget_duration: str | None = None
    rpm_limit: int | None = None
    tpm_limit: int | None = None
    max_parallel_requests: int | None = None
    metadata: dict[str, Any] = {}
    blocked: bool = False
    created_at: float = 0.0
    """Seconds since the epoch, as all times here."""
    updated_at: float = 0.0

    @property
    def limits(self) -> SpendLimits:
        """The budget and rates."""
        return SpendLimits(*(getattr(self, name) for name in SpendLimits.__struct_fields__))

    @property
    def shown_name(self) -> str:
        """The name for people."""
        return self.alias or self.id


class KeyRecord(AccessRecord, kw_only=True, omit_defaults=True):
    """A key without its secret."""

    kind: ClassVar[SpenderKind] = "key"

    digest: str
    """`digest_key` in hexadecimal."""
    shown: str
    """Its last characters, for people to tell keys apart: `sk-…Ab3d`."""
    team: str | None = None
    """A team, or a tenant of the configuration."""
    user: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["user"])
    endpoints: list[str] = []
    """Paths or patterns that it may call; empty: all."""
    expires_at: float | None = None
    rotated_at: float | None = None
    old_digest: str | None = None
    """Digest of the key that this one replaced, …"""
    old_until: float | None = None
    """… which works until then."""


MemberRole = Literal["admin", "user"]


class TeamMember(msgspec.Struct, forbid_unknown_fields=True):
    """A user of a team. A label: only administrators change teams."""

    user_id: str
    role: MemberRole = "user"


class TeamRecord(AccessRecord, kw_only=True, omit_defaults=True):
    """A team: a tenant that was made at run time."""

    kind: ClassVar[SpenderKind] = "team"

    members: list[TeamMember] = []


class UserRecord(AccessRecord, kw_only=True, omit_defaults=True):
    """A user, who may have keys in several teams."""

    kind: ClassVar[SpenderKind] = "user"

    email: str | None = None
    role: str | None = None
    """A label."""


RecordT = TypeVar("RecordT", bound=AccessRecord)
RECORD_TYPES: dict[str, type[AccessRecord]] = {
    kind.kind: kind for kind in (KeyRecord, TeamRecord, UserRecord)
}
