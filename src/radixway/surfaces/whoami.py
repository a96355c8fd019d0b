"""`/whoami`: what the key that a call brings, or the lack of one, allows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from radixway.surfaces.gate import Gate


class WhoAmI(BaseModel):
    """Who is calling."""

    admin: bool
    """It may make administrative calls."""
    by_key: bool
    """Its key alone allows them, wherever it comes from."""
    needs_key: bool
    """There are keys with which one may; without any they are for this machine alone."""
    tenant: str | None
    """Whose call it is, where tenants are configured and it is one's."""


def whoami_routes(gate: Gate) -> APIRouter:
    """The one path. It asks for nothing: a call with a wrong key is nobody's, and too many are refused."""
    router = APIRouter(tags=["gateway"])

    @router.get("/whoami", response_model=WhoAmI)
    async def whoami(request: Request) -> Any:
        """Whether this call is an administrator's, and whose it is."""
        tenancy, admin = gate.tenancy_of(request), gate.access.passes(request)
        if tenancy is None and not admin and gate.access.needs_key:
            gate.callers.check_wrong_key(request.scope)
        return WhoAmI(
            admin=admin,
            by_key=gate.access.has_key(request),
            needs_key=gate.access.needs_key,
            tenant=None if tenancy is None else tenancy.name,
        )

    return router
