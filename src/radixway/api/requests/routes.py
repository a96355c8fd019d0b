"""`GET /requests`: the latest requests, searched, newest first; `GET /explain/{request_id}`: one of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta
from pydantic import BaseModel

from radixway.api.authorization import PathAuthorization
from radixway.api.openapi import query_parameters
from radixway.api.requests.search import FLAGS, PriceOf, RequestFilter, RequestRow, RequestSearch, build_row
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import BadRequest, GatewayError
from radixway.core.telemetry import Journal, JournalStore

_STATUS = re.compile(r"([1-5])(\d\d|xx)")


class RequestPage(BaseModel):
    """A page of requests."""

    requests: list[RequestRow]
    """Newest first, by when they ended."""
    cursors: list[str]
    """`cursor` of what follows each of them."""
    next: str | None
    """`cursor` of the page that follows; null at the end. A page may be short, or empty, before the end:
    a call looks at so many requests and no more."""
    examined: int
    """Requests that were looked at for this page."""
    kept: int | None
    """Stored requests of all tenants; null unless the caller may see them all."""


class RequestStage(BaseModel):
    """A part of a request's time, known where the request is traced."""

    name: str
    began_ms: float
    """Milliseconds from the request's arrival, as the next."""
    ended_ms: float | None
    """Null: with the answer."""


class RequestExplanation(BaseModel):
    """A request's way through the gateway."""

    request_id: str
    began_at: float
    """Seconds since the epoch."""
    steps: list[dict[str, Any]]
    """Each with `step`, `at_ms` from the request's arrival, and what it found or decided."""
    row: RequestRow
    """The same in one line, as `/requests` has it, but for who asked."""
    stretches: list[RequestStage]
    """Measured stages in order; empty unless the request is traced."""
    trace_url: str | None
    """Link to its trace, if `console.trace_url` is set."""


_Name = Annotated[str, Meta(min_length=1, max_length=256)] | None


class _RequestQuery(msgspec.Struct, forbid_unknown_fields=True):
    q: Annotated[
        _Name,
        Meta(
            description="part of an id or a name (tenant, user, session, model, worker, error), in any case"
        ),
    ] = None
    tenant: Annotated[_Name, Meta(description="whose; a tenant's key sees its own in any case")] = None
    user: Annotated[_Name, Meta(description="who asked, as far as anybody said")] = None
    session: Annotated[_Name, Meta(description="which session")] = None
    surface: Annotated[_Name, Meta(description="`openai.chat`, `openai.completions`, `generate` …")] = None
    model: Annotated[_Name, Meta(description="as the client asked for it, or as its worker was asked")] = None
    worker: Annotated[_Name, Meta(description="who answered")] = None
    category: Annotated[_Name, Meta(description="what the semantic layer took it for")] = None
    decision: Annotated[_Name, Meta(description="the rule that decided")] = None
    status: Annotated[_Name, Meta(description="`404`, or a class like `5xx`")] = None
    flags: Annotated[_Name, Meta(description=f"with commas between, all of them: {', '.join(FLAGS)}")] = None
    least_ms: Annotated[float, Meta(ge=0, description="took at least so many milliseconds")] | None = None
    since: Annotated[
        _Name,
        Meta(description="began then or later: seconds since the epoch, or a time like 2026-11-22T10:00:00Z"),
    ] = None
    until: Annotated[_Name, Meta(description="began before that")] = None
    cursor: Annotated[int, Meta(ge=0, lt=2**62, description="the `next` of the page before")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500, description="rows")] = 50


def request_routes(
    book: JournalStore, price_of: PriceOf, gate: PathAuthorization, trace_url: str | None = None
) -> APIRouter:
    """Build `/requests` and `/explain`; `trace_url` shows a trace, with `{trace_id}` in it."""
    router = LazyRouter(tags=["gateway"])
    search = RequestSearch(book, price_of)

    @router.get("/requests", response_model=RequestPage, openapi_extra=query_parameters(_RequestQuery))
    async def requests(request: Request) -> Response:
        """The latest finished requests that match, newest first.

        Each is read from its journal, of which the gateway keeps the latest `telemetry.journal_capacity`.
        """
        tenant = gate.visible_tenant_or_admin(request)
        query = decode_query(dict(request.query_params), _RequestQuery)
        wanted = _parse_filter(query)

        def may_see(journal: Journal) -> bool:
            return tenant is None or journal.tenant == tenant

        page = await search.search_requests(wanted, query.cursor, query.limit, may_see)
        reply = {
            "requests": [row.__dict__ for row in page.rows],
            "cursors": [str(number) for number in page.numbers],
            "next": None if page.next is None else str(page.next),
            "examined": page.examined,
            "kept": len(book) if tenant is None else None,
        }
        return Response(msgspec.json.encode(reply), media_type="application/json")

    @router.get("/explain/{request_id:path}", response_model=RequestExplanation)
    async def explain(request_id: str, request: Request, tenant: str | None = None) -> Response:
        """Return every step and decision of a recent request, by its `x-request-id`; tenants see their own.

        Clients choose ids. Of one that several tenants used administrators see the first's, or `tenant`'s.
        """
        journal = book.find_journal(request_id, gate.visible_tenant(request) or tenant)
        if journal is None:
            message = f"no journal of {request_id!r}, or not any more"
            raise GatewayError(message, status=404, code="request_not_found", param="request_id")
        reply = journal.explain() | {
            "row": build_row(journal, price_of).__dict__ | {"user": None},  # who asked is the admin's to know
            "stretches": _timed_stages(journal),
            "trace_url": trace_url and journal.trace_id and trace_url.replace("{trace_id}", journal.trace_id),
        }
        return Response(msgspec.json.encode(reply), media_type="application/json")

    return router


def _timed_stages(journal: Journal) -> list[dict[str, Any]]:
    found = [] if journal.trace is None else journal.trace.stages
    return [
        {
            "name": stage.name,
            "began_ms": round(stage.began_s * 1e3, 3),
            "ended_ms": None if stage.ended_s is None else round(stage.ended_s * 1e3, 3),
        }
        for stage in sorted(found, key=lambda stage: stage.began_s)
    ]


_PASSED = ("tenant", "user", "session", "surface", "model", "worker", "category", "decision", "least_ms")
"""Query fields that a `RequestFilter` has under the same name."""


def _parse_filter(query: _RequestQuery) -> RequestFilter:
    return RequestFilter(
        text=query.q,
        **{name: getattr(query, name) for name in _PASSED},
        status=_parse_status(query.status),
        flags=_parse_flags(query.flags),
        since=_parse_time(query.since, "since"),
        until=_parse_time(query.until, "until"),
    )


def _parse_status(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _STATUS.fullmatch(text.lower())
    if found is None:
        raise BadRequest(f"status: 404, or a class like 5xx, not {text[:40]!r}", param="status")
    first = int(found[1]) * 100
    return (first, first + 99) if found[2] == "xx" else (first + int(found[2]), first + int(found[2]))


def _parse_flags(text: str | None) -> frozenset[str]:
    given = [name.strip() for name in text.split(",")] if text else []
    if wrong := [name for name in given if name not in FLAGS]:
        raise BadRequest(f"flags: {', '.join(FLAGS)}, not {wrong[0][:40]!r}", param="flags")
    return frozenset(given)


def _parse_time(text: str | None, name: str) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
            seconds = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            seconds = float("nan")
    if not isfinite(seconds):
        raise BadRequest(
            f"{name}: seconds since the epoch, or a time like 2026-11-22T10:00:00Z, not {text[:40]!r}",
            param=name,
        )
    return seconds
