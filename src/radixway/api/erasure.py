"""`POST /admin/erase`: forget a tenant's user, session, request, or all of a tenant, everywhere."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.core.component import Subject
from radixway.core.erasure import ErasureService
from radixway.core.http import decode_json
from radixway.core.pipeline import BadRequest

_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class _EraseBody(msgspec.Struct, forbid_unknown_fields=True):
    tenant: _Name
    user: _Name | None = None
    session: _Name | None = None
    request: _Name | None = None
    all: bool = False
    """The whole tenant is meant: said aloud, for it cannot be taken back."""
    workers: bool = False
    """Workers' prefix caches too, which are emptied for it."""


_whose = msgspec.json.Decoder(_EraseBody)


def erasure_routes(erasure: ErasureService, access: AdminAccess) -> APIRouter:
    """Build `/admin/erase` for administrators."""
    router = APIRouter(tags=["erasure"], dependencies=[Depends(access)])

    @router.post("/admin/erase")
    async def erase(request: Request) -> JSONResponse:
        """Erase all data of the subject, in every component; 207 where some are out of reach, and tried
        again.
        """
        asked = decode_json(_whose, await request.body())
        subject = Subject(asked.tenant, asked.user, asked.session, asked.request, asked.workers)
        if len(subject.given()) == 1 and not asked.all:
            raise BadRequest("say whose: user, session or request; or all: true for the tenant", param="user")
        erased = await erasure.erase_everywhere(subject)
        return JSONResponse(erased.to_dict(), 200 if erased.is_complete else 207)

    return router
