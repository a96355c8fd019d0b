"""`/whoami`: what the key that a call brings, or the lack of one, allows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from radixway.surfaces.gate import PathAuthorization


class CallerInfo(BaseModel):
    """Who is calling."""

    admin: bool
    """It may make administrative calls."""
    by_key: bool
    """Its key alone allows them, wherever it comes from."""
    needs_key: bool
    """There are keys with which one may; without any they are for this machine alone."""
    tenant: str | None
    """Whose call it is, where tenants are configured and it is one's."""


def whoami_routes(gate: PathAuthorization) -> APIRouter:
    """The one path. It asks for nothing: a call with a wrong key is nobody's, and too many are refused."""
    router = APIRouter(tags=["gateway"])

    @router.get("/whoami", response_model=CallerInfo)
    async def whoami(request: Request) -> Any:
        """Whether this call is an administrator's, and whose it is."""
        tenancy, admin = gate.tenant_policy_of(request), gate.access.is_allowed(request)
        if tenancy is None and not admin and gate.access.needs_key:
            gate.callers.count_wrong_key(request.scope)
        return CallerInfo(
            admin=admin,
            by_key=gate.access.has_admin_key(request),
            needs_key=gate.access.needs_key,
            tenant=None if tenancy is None else tenancy.name,
        )

    return router
