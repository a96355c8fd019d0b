"""LiteLLM's paths for what was spent: sums by day, since single requests are in `/explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query

from radixway.api.keys.litellm_shapes import require_key
from radixway.api.keys.rest_routes import day_span
from radixway.api.keys.store.changes import PLAIN_TEXT
from radixway.core.pipeline import BadRequest

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService


def add_spend_paths(router: APIRouter, access: AccessService) -> None:
    """Add the paths to `router`."""

    @router.get("/spend/logs")
    async def spend_logs(
        api_key: str | None = None,
        user_id: Annotated[str | None, Query(pattern=PLAIN_TEXT)] = None,
        request_id: str | None = None,
        start_date: str | None = None,
        end_date: str | None = None,
        *,
        summarize: bool = True,
    ) -> list[dict[str, Any]]:
        """What was spent by day, key, user and model; with dates and without `summarize=false`, by day.

        Single requests are not kept here: `/explain/{request_id}` has them.
        """
        if request_id is not None:
            raise BadRequest(
                "request_id: single requests are not kept here; ask /explain/{request_id}", param="request_id"
            )
        first, last = day_span(start_date, end_date, ("start_date", "end_date"))
        wanted = {"user_id": user_id} if user_id else {}
        if api_key is not None:
            wanted["key_id"] = require_key(access, api_key, "api_key").id
        await access.sync()
        rows = await access.store.sum_usage(
            ("day", "key_id", "user_id", "team_id", "model"), first, last, wanted
        )
        if summarize and (start_date or end_date):
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

    @router.get("/global/spend/report")
    async def spend_report(
        start_date: str | None = None, end_date: str | None = None, group_by: str = "team"
    ) -> list[dict[str, Any]]:
        """What was spent by day, and within it by `group_by`: team, user or api_key."""
        columns = {"team": "team_id", "user": "user_id", "api_key": "key_id"}
        if group_by not in columns:
            raise BadRequest(f"group_by: {', '.join(columns)}, not {group_by[:40]!r}", param="group_by")
        first, last = day_span(start_date, end_date, ("start_date", "end_date"))
        await access.sync()
        column = columns[group_by]
        rows = await access.store.sum_usage(("day", column, "model"), first, last, {})
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


def _summarize_days(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    days: dict[str, dict[str, Any]] = {}
    for row in rows:
        day = days.setdefault(row["day"], {"startTime": row["day"], "spend": 0.0, "users": {}, "models": {}})
        day["spend"] += row["cost"]
        for name, column in (("users", "user_id"), ("models", "model")):
            day[name][row[column]] = day[name].get(row[column], 0.0) + row["cost"]
        day[row["key_id"]] = day.get(row["key_id"], 0.0) + row["cost"]
    return [*days.values()]
