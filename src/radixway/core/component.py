"""Component: a part of a gateway that is started, stopped, described, and made to forget people.

Constructing a component checks its configuration and opens nothing: no file, connection, thread or task.
`start` opens what it needs, in the order of the composition root's list; `stop` releases it, in reverse.
"""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

log = logging.getLogger(__name__)


class CannotErase(Exception):
    """Part of an erasure must be tried again; the text says what, never whose."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The person or tenant whose data is to be erased: all that agrees with every field that is given."""

    tenant: str
    user: str | None = None
    session: str | None = None
    request: str | None = None
    workers: bool = False
    """Workers' prefix caches, whose entries have no owner."""

    def given(self) -> dict[str, str]:
        """Return the fields that are given."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, str)}


class Component:
    """A part of a program with a lifetime. A subclass overrides what it has something to do for."""

    name = ""
    """Names the component in `/health`, in the answer of an erasure and in the log."""
    erasable_by: frozenset[str] = frozenset()
    """Fields of a `Subject` by which it finds data, `tenant` always among them; none: it keeps nothing."""

    async def start(self) -> None:
        """Open what it needs. If it raises, it has released what it had opened; it is not stopped."""

    async def stop(self) -> None:
        """Release everything that `start` opened."""

    async def erase(self, subject: Subject) -> int:
        """Forget all of `subject`, return how many entries there were. Raises CannotErase: ask again."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Return how it is, for `/health`; what is empty is not shown."""
        return {}


@asynccontextmanager
async def running(components: Iterable[Component]) -> AsyncIterator[None]:
    """Start `components` in order, stop each in reverse. Raises the first error of all, logs the others."""
    started: list[Component] = []
    first: BaseException | None = None
    try:
        for component in components:
            await component.start()
            started.append(component)
        yield
    except BaseException as error:
        first = error
        raise
    finally:
        failed = await _stop_all(reversed(started), first)
        if first is None and failed is not None:
            raise failed


async def _stop_all(components: Iterable[Component], first: BaseException | None) -> BaseException | None:
    """Stop each component; return the first error, or `first`."""
    for component in components:
        try:
            await component.stop()
        except BaseException as error:
            if first is not None:
                log.error("%s could not be stopped", component.name, exc_info=error)
            first = first or error
    return first
