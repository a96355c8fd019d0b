"""`POST /admin/erase`: forget a tenant's user, session, request, or all of a tenant, everywhere."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.erasure import Erasure
from radixway.pipeline import BadRequest, Subject
from radixway.surfaces.access import AdminAccess
from radixway.telemetry import Journal, JournalBook
from radixway.web import read_json

_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class _Whose(msgspec.Struct, forbid_unknown_fields=True):
    tenant: _Name
    user: _Name | None = None
    session: _Name | None = None
    request: _Name | None = None
    all: bool = False
    """The whole tenant is meant: said aloud, for it cannot be taken back."""
    workers: bool = False
    """Workers' prefix caches too, which are emptied for it."""


_whose = msgspec.json.Decoder(_Whose)


class ErasableJournals:
    """The journals behind `/explain` as `pipeline.Erasable`."""

    name = "journals"
    by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, book: JournalBook) -> None:
        self._book = book

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`."""

        def is_meant(journal: Journal) -> bool:
            said = {
                "tenant": journal.tenant,
                "user": journal.user,
                "session": journal.session,
                "request": journal.request_id,
            }
            return subject.given().items() <= said.items()

        return self._book.forget(is_meant)

    def entry_of(self, tenant: str, request_id: str) -> str | None:
        """The entry of the semantic cache that a tenant's request left."""
        journal = self._book.find(request_id, tenant)
        for step, _, said in journal.entries if journal is not None else ():
            if step == "semantic_cache_keep" and isinstance(said, dict) and "entry" in said:
                return str(said["entry"])
        return None


def erasure_routes(erasure: Erasure, access: AdminAccess) -> APIRouter:
    """For administrators alone."""
    router = APIRouter(tags=["erasure"], dependencies=[Depends(access)])

    @router.post("/admin/erase")
    async def erase(request: Request) -> JSONResponse:
        """Forget whoever it names, in every room; 207 where some are out of reach, and asked again."""
        asked = read_json(_whose, await request.body())
        subject = Subject(asked.tenant, asked.user, asked.session, asked.request, asked.workers)
        if len(subject.given()) == 1 and not asked.all:
            raise BadRequest("say whose: user, session or request; or all: true for the tenant", param="user")
        erased = await erasure.erase(subject)
        return JSONResponse(erased.told(), 200 if erased.complete else 207)

    return router
