"""`GET /usage`: usage of all tenants for the operator, and of each tenant for itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, get_args

from fastapi import APIRouter, Request

from radixway.core.pipeline import BadRequest, ForbiddenError, GatewayError
from radixway.core.tenants import TenantService

_By = Literal["day", "tenant", "model", "category"]
_FIELDS: tuple[str, ...] = get_args(_By)
_USUAL_DAYS = 30


class UsageOffError(GatewayError):
    """Nothing is counted."""

    status = 404
    code = "usage_off"


def usage_routes(room: TenantService | None, confined_to: Callable[[Request], str | None]) -> APIRouter:
    """`confined_to`: the tenant whose usage alone the call may see, None for everybody's."""
    router = APIRouter(tags=["tenants"])

    @router.get("/usage")
    async def usage(request: Request) -> dict[str, Any]:
        """Requests, tokens and costs from `from` to `to` (dates, UTC, both included; the last 30 days).

        `by` says what they are told apart by: `day`, `tenant`, `model`, `category`, with commas between.
        `tenant` asks for one alone. With it, or with a tenant's own key, its limits are told too.
        """
        if room is None:
            raise UsageOffError("nothing is counted: configure tenants")
        asked = request.query_params
        own = confined_to(request)
        tenant = asked.get("tenant") or own
        if own is not None and tenant != own:
            raise ForbiddenError(
                f"this key is of the tenant {own!r}, and shows no other's usage", param="tenant"
            )
        if tenant is not None and tenant not in room.tenancies:
            raise BadRequest(f"tenant: there is no tenant {tenant[:80]!r}", param="tenant")
        today = datetime.now(UTC).date()
        last = _parse_date(asked.get("to"), "to") or today
        first = _parse_date(asked.get("from"), "from") or last - timedelta(days=_USUAL_DAYS - 1)
        if first > last:
            raise BadRequest("from: is later than to", param="from")
        by = _parse_group_by(asked.get("by"))
        told: dict[str, Any] = {"from": first.isoformat(), "to": last.isoformat(), "by": by}
        told["usage"] = room.usage_report(by, first, last, tenant)
        if tenant is not None:
            told["limits"] = await room.limits_of(tenant)
        return told

    return router


def _parse_date(text: str | None, name: str) -> date | None:
    """Raises BadRequest."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadRequest(f"{name}: a date like 2026-11-30, not {text!r:.40}", param=name) from None


def _parse_group_by(text: str | None) -> list[str]:
    """Raises BadRequest."""
    given = [name.strip() for name in text.split(",")] if text else ["tenant", "model", "category"]
    if wrong := [name for name in given if name not in _FIELDS]:
        raise BadRequest(f"by: {', '.join(_FIELDS)}, not {wrong[0][:40]!r}", param="by")
    return list(dict.fromkeys(given))
