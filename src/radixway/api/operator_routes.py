"""Routes of the operator: `POST /admin/erase`, `GET /traffic` for `radixway record`, and `GET /usage`."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, StreamingResponse
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.client_requests import decode_body
from radixway.core.component import Subject
from radixway.core.erasure import ErasureService
from radixway.core.http import LazyRouter
from radixway.core.pipeline import BadRequest, ForbiddenError, GatewayError
from radixway.core.tenants import TenantService
from radixway.routing.transports import TrafficFeed, TrafficFollower

_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class _EraseBody(msgspec.Struct, forbid_unknown_fields=True):
    tenant: _Name
    user: _Name | None = None
    session: _Name | None = None
    request: _Name | None = None
    all: bool = False
    """Erase the whole tenant; an explicit flag, because this cannot be undone."""
    workers: bool = False
    """Workers' prefix caches too, which are emptied for it."""


def erasure_routes(erasure: ErasureService, access: AdminAccess) -> APIRouter:
    """Build `/admin/erase` for administrators."""
    router = LazyRouter(tags=["erasure"], dependencies=[Depends(access)])

    @router.post("/admin/erase")
    async def erase(request: Request) -> JSONResponse:
        """Erase all data of the subject, in every component; 207: some are out of reach, and tried again."""
        body = await decode_body(request, _EraseBody)
        subject = Subject(body.tenant, body.user, body.session, body.request, body.workers)
        if len(subject.given()) == 1 and not body.all:
            raise BadRequest("say whose: user, session or request; or all: true for the tenant", param="user")
        erased = await erasure.erase_everywhere(subject)
        return JSONResponse(erased.to_dict(), 200 if erased.is_complete else 207)

    return router


def traffic_routes(traffic: TrafficFeed, access: AdminAccess) -> APIRouter:
    """Build `/traffic`."""
    router = LazyRouter(tags=["gateway"], dependencies=[Depends(access)])

    @router.get("/traffic", response_class=StreamingResponse)
    async def follow_traffic() -> StreamingResponse:
        """A line of JSON for each request that is answered from now on, without its text.

        The stream ends when the gateway stops, or when its reader falls too far behind.
        """
        return StreamingResponse(_traffic_lines(traffic.add_follower()), media_type="application/x-ndjson")

    return router


async def _traffic_lines(follower: TrafficFollower) -> AsyncIterator[bytes]:
    try:
        async for line in follower:
            yield line
    finally:
        follower.stop_following()


_By = Literal["day", "tenant", "model", "category"]
_FIELDS: tuple[str, ...] = get_args(_By)
_USUAL_DAYS = 30


def usage_routes(tenants: TenantService | None, confined_to: Callable[[Request], str | None]) -> APIRouter:
    """`confined_to`: the tenant whose usage alone the call may see, None for everybody's."""
    router = LazyRouter(tags=["tenants"])

    @router.get("/usage")
    async def usage(request: Request) -> dict[str, Any]:
        """Requests, tokens and costs from `from` to `to` (dates, UTC, both included; the last 30 days).

        `by` groups them: `day`, `tenant`, `model`, `category`, with commas between. `tenant` selects one;
        with it, or with a tenant's own key, the report includes its limits.
        """
        if tenants is None or not tenants.tenancies:
            raise GatewayError("nothing is counted: configure tenants", status=404, code="usage_off")
        query = request.query_params
        own = confined_to(request)
        tenant = query.get("tenant") or own
        if own is not None and tenant != own:
            raise ForbiddenError(
                f"this key is of the tenant {own!r}, and shows no other's usage", param="tenant"
            )
        if tenant is not None and tenant not in tenants.tenancies:
            raise BadRequest(f"tenant: there is no tenant {tenant[:80]!r}", param="tenant")
        today = datetime.now(UTC).date()
        last = _parse_date(query.get("to"), "to") or today
        first = _parse_date(query.get("from"), "from") or last - timedelta(days=_USUAL_DAYS - 1)
        if first > last:
            raise BadRequest("from: is later than to", param="from")
        by = _parse_group_by(query.get("by"))
        report: dict[str, Any] = {"from": first.isoformat(), "to": last.isoformat(), "by": by}
        report["usage"] = await tenants.usage_report(by, first, last, tenant)
        if tenant is not None:
            report["limits"] = await tenants.limits_of(tenant)
        return report

    return router


def _parse_date(text: str | None, name: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadRequest(f"{name}: a date like 2026-11-30, not {text!r:.40}", param=name) from None


def _parse_group_by(text: str | None) -> list[str]:
    given = [name.strip() for name in text.split(",")] if text else ["tenant", "model", "category"]
    if wrong := [name for name in given if name not in _FIELDS]:
        raise BadRequest(f"by: {', '.join(_FIELDS)}, not {wrong[0][:40]!r}", param="by")
    return list(dict.fromkeys(given))
