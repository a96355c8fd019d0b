"""`GET /audit`: the latest entries of the audit log, newest first, for administrators."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.openapi import query_parameters
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import GatewayError
from radixway.semantics.guard.audit import AuditService, Fields, search_entries
from radixway.semantics.guard.audit.log_files import list_log_files

_Name = Annotated[str, Meta(min_length=1, max_length=256)] | None


class _AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    tenant: Annotated[_Name, Meta(description="whose requests")] = None
    rule: Annotated[_Name, Meta(description="`pii`, `jailbreak`, `rules`, `answers` and what is below")] = (
        None
    )
    request: Annotated[_Name, Meta(description="the id of a request")] = None
    limit: Annotated[int, Meta(ge=1, le=500, description="entries")] = 100


def audit_routes(audit: AuditService | None, access: AdminAccess) -> APIRouter:
    """Build `/audit`; `audit` None: this gateway has no log."""
    router = LazyRouter(tags=["guard"], dependencies=[Depends(access)])

    @router.get("/audit", openapi_extra=query_parameters(_AuditQuery))
    async def entries(request: Request) -> dict[str, Any]:
        """The latest entries that agree with every field given, newest first; none has a word of a text."""
        query = decode_query(dict(request.query_params), _AuditQuery)
        if audit is None:
            message = "this gateway has no audit log: it comes with the guard, or with guard.audit.enabled"
            raise GatewayError(message, status=404, code="audit_off")
        try:
            found = await asyncio.to_thread(_latest_entries, audit.log.directory, query)
        except OSError as error:
            why = f"the audit log cannot be read: {error.strerror or error}"
            raise GatewayError(why, status=503, code="audit_unavailable") from None
        return {"entries": found, "log": audit.describe()}

    return router


def _latest_entries(directory: Path, query: _AuditQuery) -> list[Fields]:
    """Return the newest entries in `directory`, read file by file from the newest on. Raises OSError."""
    found: list[Fields] = []
    for file in reversed(list_log_files(directory)):
        entries = search_entries(file.path, tenant=query.tenant, rule=query.rule, request=query.request)
        found += reversed(deque(entries, maxlen=query.limit - len(found)))
        if len(found) >= query.limit:
            break
    return found
