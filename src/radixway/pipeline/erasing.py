"""What rooms that keep something of people offer, so that somebody can be forgotten; `erasure/` asks them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol


class CannotErase(Exception):
    """Something cannot be reached now, and is to be asked again; the text says what, never whose."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose data: of a tenant, all that agrees with every other field that is given."""

    tenant: str
    user: str | None = None
    session: str | None = None
    request: str | None = None
    """A request's id."""
    workers: bool = False
    """What workers keep in their prefix caches too: everybody's, for there it is nobody's in particular."""

    def given(self) -> dict[str, str]:
        """The fields that are given."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, str)}


class Erasable(Protocol):
    """A room that keeps something of people."""

    name: str
    by: frozenset[str]
    """The fields of a subject that it can tell people apart by; `tenant` is always one."""

    async def erase(self, subject: Subject) -> int:
        """Forget it all; how many entries there were. May be called again. Raises CannotErase."""
        ...
