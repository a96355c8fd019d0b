"""The audit log among the rooms of a gateway: opened, closed, in the way of requests where it is to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from radixway.guard.audit.log import AuditLog, AuditUnavailable
from radixway.guard.audit.rules import RuleBlocks
from radixway.pipeline import CannotErase, GatewayError, Middleware, Next, Reply, Request, Subject


class NotAudited(GatewayError):
    """What the guard does cannot be written down now, and nothing may pass without."""

    status = 503
    code = "audit_unavailable"
    retry_after_s = 1


class AuditRoom:
    """The log, and what becomes of requests while it cannot be written. A `pipeline.Erasable`.

    Erasing somebody is forgetting the key of their pseudonym: the entries stay, and are nobody's.
    """

    name = "audit"
    by = frozenset({"tenant", "user"})

    def __init__(self, log: AuditLog, *, blocks: bool) -> None:
        self.log = log
        self._blocks = blocks

    def middlewares(self) -> list[Middleware]:
        """To stand outside of the guard and the semantic layer."""
        return [*([_Gate(self.log)] if self._blocks else ()), RuleBlocks(self.log)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises ConfigError."""
        await self.log.open()
        try:
            yield
        finally:
            await self.log.close()

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many users."""
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
