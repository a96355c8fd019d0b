"""LiteLLM's paths for what was spent: sums by day, since single requests are in `/explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request

from radixway.api.keys.litellm_shapes import require_key
from radixway.api.keys.rest_routes import day_span
from radixway.api.keys.store.changes import PlainText
from radixway.api.openapi import query_parameters
from radixway.core.http.request_body import decode_query
from radixway.core.pipeline import BadRequest

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService


_GROUPS = {"team": "team_id", "user": "user_id", "api_key": "key_id"}


class _LogsQuery(msgspec.Struct, forbid_unknown_fields=True):
    api_key: PlainText | None = None
    user_id: PlainText | None = None
    team_id: PlainText | None = None
    model: PlainText | None = None
    request_id: str | None = None
    start_date: str | None = None
    end_date: str | None = None
    summarize: bool = True


class _ReportQuery(msgspec.Struct, forbid_unknown_fields=True):
    start_date: str | None = None
    end_date: str | None = None
    group_by: str = "team"


def add_spend_paths(router: APIRouter, access: AccessService) -> None:
    """Add the paths to `router`."""

    @router.get("/spend/logs", openapi_extra=query_parameters(_LogsQuery))
    async def spend_logs(request: Request) -> list[dict[str, Any]]:
        """Sum what was spent by day, key, user, team and model; with dates, and `summarize`, by day.

        Without dates they are the last 30 days. Single requests are not kept here: `/explain/{id}` has them.
        """
        query = decode_query(dict(request.query_params), _LogsQuery)
        if query.request_id is not None:
            raise BadRequest(
                "request_id: single requests are not kept here; ask /explain/{request_id}", param="request_id"
            )
        wanted = {name: value for name in ("user_id", "team_id", "model") if (value := getattr(query, name))}
        if query.api_key is not None:
            is_id = query.api_key.startswith("key-")  # of a deleted key, maybe
            wanted["key_id"] = query.api_key if is_id else require_key(access, query.api_key, "api_key").id
        columns = ("day", "key_id", "user_id", "team_id", "model")
        rows = await _sum_spending(access, columns, query.start_date, query.end_date, wanted)
        if query.summarize and (query.start_date or query.end_date):
            return _summarize_days(rows)
        return [
            {
                "request_id": None,
                "call_type": "day",
                "api_key": row["key_id"],
                "user": row["user_id"],
                "team_id": row["team_id"],
                "model": row["model"],
                "spend": row["cost"],
                "total_tokens": row["prompt_tokens"] + row["completion_tokens"],
                "prompt_tokens": row["prompt_tokens"],
                "completion_tokens": row["completion_tokens"],
                "requests": row["requests"],
                "startTime": f"{row['day']}T00:00:00+00:00",
                "endTime": f"{row['day']}T23:59:59+00:00",
            }
            for row in rows
        ]

    @router.get("/global/spend/report", openapi_extra=query_parameters(_ReportQuery))
    async def spend_report(request: Request) -> list[dict[str, Any]]:
        """Sum what was spent by day, and within it by `group_by`: team, user or api_key."""
        query = decode_query(dict(request.query_params), _ReportQuery)
        group_by, column = query.group_by, _GROUPS.get(query.group_by)
        if column is None:
            raise BadRequest(f"group_by: {', '.join(_GROUPS)}, not {group_by[:40]!r}", param="group_by")
        rows = await _sum_spending(access, ("day", column, "model"), query.start_date, query.end_date, {})
        days: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            group = days.setdefault(row["day"], {}).setdefault(
                row[column], {column: row[column], "total_spend": 0.0, "metadata": []}
            )
            group["total_spend"] += row["cost"]
            group["metadata"].append(
                {
                    "model": row["model"],
                    "spend": row["cost"],
                    "total_tokens": row["prompt_tokens"] + row["completion_tokens"],
                }
            )
        return [
            {"group_by_day": f"{day}T00:00:00+00:00", f"{group_by}s": [*groups.values()]}
            for day, groups in days.items()
        ]


async def _sum_spending(
    access: AccessService,
    columns: Sequence[str],
    start_date: str | None,
    end_date: str | None,
    wanted: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the usage by `columns`, costs in the currency of budgets: others count for nothing, as there."""
    first, last = day_span(start_date, end_date, ("start_date", "end_date"))
    await access.sync()
    rows = await access.store.sum_usage(columns, first, last, wanted)
    return [row | {"cost": row["cost"] * (row["currency"] == access.directory.currency)} for row in rows]


def _summarize_days(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    days: dict[str, dict[str, Any]] = {}
    for row in rows:
        day = days.setdefault(row["day"], {"startTime": row["day"], "spend": 0.0, "users": {}, "models": {}})
        day["spend"] += row["cost"]
        for name, column in (("users", "user_id"), ("models", "model")):
            day[name][row[column]] = day[name].get(row[column], 0.0) + row["cost"]
        day[row["key_id"]] = day.get(row["key_id"], 0.0) + row["cost"]
    return [*days.values()]
