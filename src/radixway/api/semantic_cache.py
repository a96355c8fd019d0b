"""The semantic cache over HTTP: `/cache/*`, and `/response-cache/*` as published.

Imported only where the cache is on: it needs radixway[semantic].
"""

from math import isinf
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from msgspec import Meta

from radixway.api.authorization import PathAuthorization
from radixway.api.client_requests import decode_body
from radixway.api.openapi import query_parameters
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import BadRequest, GatewayError
from radixway.core.telemetry import JournalStore
from radixway.semantics.cache import CacheEntry, CacheRoom, EntryFilter, KnownAnswer, exact_digest

_Name = Annotated[str, Meta(min_length=1, max_length=8192)]
_MAX_SHOWN_CHARS = 500


class _PurgeBody(msgspec.Struct, forbid_unknown_fields=True):
    tenant: _Name | None = None
    user: _Name | None = None
    model: _Name | None = None
    query: _Name | None = None
    entry: _Name | None = None
    all: bool = False


class _ReportBody(msgspec.Struct, forbid_unknown_fields=True):
    request_id: _Name | None = None
    entry: _Name | None = None


class _QuestionPairBody(msgspec.Struct, forbid_unknown_fields=True):
    one: _Name
    other: _Name


def _describe_entry(entry: CacheEntry, shows_text: bool) -> dict[str, Any]:
    return {
        "id": entry.id,
        "tenant": entry.tenant,
        "user": entry.user,
        "model": entry.model,
        "created_at": entry.created_at,
        "expires_at": None if isinf(entry.expires_at) else entry.expires_at,
        "answer_bytes": len(entry.answer),
        "question": entry.question[:_MAX_SHOWN_CHARS] if shows_text else None,
    }


class _WarmUpBody(msgspec.Struct, forbid_unknown_fields=True):
    entries: Annotated[list[KnownAnswer], Meta(min_length=1, max_length=10_000)]


class _EntriesQuery(msgspec.Struct, forbid_unknown_fields=True):
    tenant: Annotated[_Name, Meta(description="whose answers")] | None = None
    model: Annotated[_Name, Meta(description="the model that gave them")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500, description="entries")] = 100


def cache_routes(
    service: CacheRoom, book: JournalStore, gate: PathAuthorization, *, shows_text: bool = False
) -> APIRouter:
    """Build the routes of the cache of `service`: statistics, entries, purge, report, warm-up, comparison.

    `shows_text`: administrators may see the questions of entries.
    """
    router = LazyRouter(tags=["semantic cache"])
    admin = [Depends(gate.access)]

    @router.get("/cache/stats", dependencies=admin)
    @router.get("/api/v1/response-cache/stats", dependencies=admin)
    async def stats() -> dict[str, Any]:
        """Entries, hits and misses, and why requests passed by."""
        return await service.stats()

    @router.get("/cache/entries", dependencies=admin, openapi_extra=query_parameters(_EntriesQuery))
    async def entries(request: Request) -> dict[str, Any]:
        """The newest entries in this gateway's memory; `question` is null unless `console.show_prompts`."""
        query = decode_query(dict(request.query_params), _EntriesQuery)
        which = EntryFilter(tenant=query.tenant, model=query.model)
        found = service.newest_entries(which, query.limit)
        return {"entries": [_describe_entry(entry, shows_text) for entry in found]}

    @router.post("/cache/purge", dependencies=admin)
    @router.post("/api/v1/response-cache/invalidate", dependencies=admin)
    async def purge(request: Request) -> dict[str, Any]:
        """Remove the entries that match every field given: tenant, user, model, query, entry."""
        body = await decode_body(request, _PurgeBody)
        query = None if body.query is None else exact_digest(body.query)
        which = EntryFilter(body.entry, body.tenant, body.user, body.model, query)
        if not which.given_fields() and not body.all:
            raise BadRequest("say which: tenant, user, model, query or entry; or all: true", param="all")
        return await removed(which)

    @router.post("/cache/flush", dependencies=admin)
    @router.post("/api/v1/response-cache/flush", dependencies=admin)
    async def flush() -> dict[str, Any]:
        """Remove all entries."""
        return await removed(EntryFilter())

    @router.post("/cache/report")
    async def report(request: Request) -> dict[str, Any]:
        """Report a wrong answer from the cache: its entry is removed, and the two questions no longer match.

        A client knows its answer's `x-request-id`, so no admin key is needed. Tenants report answers of
        their own.
        """
        body = await decode_body(request, _ReportBody)
        if (body.request_id is None) == (body.entry is None):
            raise BadRequest("give request_id or entry", param="request_id")
        entry, pair = body.entry or "", None
        tenant = gate.visible_tenant(request)
        if body.request_id is not None:
            entry, pair = hit_of(body.request_id, tenant)
        tenancy = None if tenant is None else gate.tenant_policy_of(request)
        namespace = None if tenancy is None else tenancy.cache_namespace or tenancy.name
        return {"entry": entry, "removed": await service.cache.report_wrong(entry, pair, namespace)}

    @router.post("/cache/warm-up", dependencies=admin)
    async def warm_up(request: Request) -> dict[str, Any]:
        """Keep answers that are known already; the lines of a warm-up file as a list."""
        body = await decode_body(request, _WarmUpBody)
        for at, known in enumerate(body.entries):
            try:
                known.request_and_response()
            except ValueError as error:
                raise BadRequest(str(error), param=f"entries.{at}") from None
        return {"kept": await service.warm_up(body.entries)}

    @router.post("/cache/compare", dependencies=admin)
    async def compare(request: Request) -> dict[str, Any]:
        """Return how similar two questions are, and whether one's answer may stand for the other's."""
        body = await decode_body(request, _QuestionPairBody)
        similarity = await service.cache.question_similarity(body.one, body.other)
        if similarity is None:
            raise GatewayError("the encoder cannot read them now", status=503, code="encoder_unavailable")
        verdict = service.cache.verify(body.one, body.other, similarity)
        return {
            "similarity": similarity,
            "same": verdict.same,
            "reason": verdict.reason,
            "likelihood": round(verdict.likelihood, 4),
        }

    async def removed(which: EntryFilter) -> dict[str, Any]:
        count = await service.cache.purge_entries(which)
        pending = service.behind.pending_removals if service.behind is not None else 0
        return {"removed": count, "pending_at_store": pending}

    def hit_of(request_id: str, tenant: str | None) -> tuple[str, tuple[str, str]]:
        journal = book.find_journal(request_id, tenant)
        for step, _, detail in journal.entries if journal is not None else ():
            if step == "semantic_cache" and isinstance(detail, dict) and "entry" in detail:
                question, cached_question = detail["questions"]
                return detail["entry"], (question, cached_question)
        message = f"request {request_id!r} was not answered from the cache"
        raise GatewayError(message, status=404, code="cache_entry_not_found", param="request_id")

    return router
