"""The audit log among the rooms of a gateway: opened, closed, in the way of requests where it is to be."""

from __future__ import annotations

from typing import Any

from radixway.component import CannotErase, Component, Subject
from radixway.guard.audit.log import AuditLog, AuditUnavailable
from radixway.guard.audit.rules import RuleBlocks
from radixway.pipeline import GatewayError, Middleware, Next, Reply, Request


class NotAudited(GatewayError):
    """What the guard does cannot be written down now, and nothing may pass without."""

    status = 503
    code = "audit_unavailable"
    retry_after_s = 1


class AuditRoom(Component):
    """The log, and what becomes of requests while it cannot be written.

    Erasing somebody is forgetting the key of their pseudonym: the entries stay, and are nobody's.
    """

    name = "audit"
    erasable_by = frozenset({"tenant", "user"})

    def __init__(self, log: AuditLog, *, blocks: bool) -> None:
        self.log = log
        self._blocks = blocks

    def middlewares(self) -> list[Middleware]:
        """To stand outside of the guard and the semantic layer."""
        return [*([_Gate(self.log)] if self._blocks else ()), RuleBlocks(self.log)]

    async def start(self) -> None:
        """Open the log. Raises ConfigError."""
        await self.log.open()

    async def stop(self) -> None:
        """Write what waits, and close the log."""
        await self.log.close()

    async def erase(self, subject: Subject) -> int:
        """See `Component`: how many users."""
        try:
            gone = await self.log.work(lambda pseudonyms: pseudonyms.forget(subject.tenant, subject.user))
        except AuditUnavailable as error:
            raise CannotErase(str(error)) from None
        return len(gone)

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return self.log.describe() | {"on_error": "block" if self._blocks else "allow"}


class _Gate:
    """Lets nothing pass while the log cannot be written."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        if self._log.problem is not None:
            raise NotAudited("the audit log cannot be written now, and this gateway answers nothing without")
        return await call_next(request)
