"""Which requests are looked for: kept in the page's address, so that a list can be bookmarked and sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

FLAGS = (
    *("error", "blocked", "guard", "cache_hit", "retried", "fallback", "hedged", "queued"),
    *("split", "resumed", "stream", "broken", "client_left"),
)
STATUSES = ("2xx", "4xx", "5xx", "499")
AGES: Mapping[str, int] = {"5m": 300, "1h": 3600, "24h": 86_400}
"""How long ago a request began at most, in seconds, by name."""

_NAMES = ("q", "status", "flags", "age", "model", "worker", "tenant", "surface", "category", "least_ms")


@dataclass(slots=True)
class RequestFilters:
    """Filters of `/requests`; empty ones are left out."""

    asked: dict[str, str] = field(default_factory=dict)
    cursors: list[str] = field(default_factory=list)
    """Where each page after the first one that was turned to begins."""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RequestFilters:
        """Read the filters of an address's `query`; invalid ones are left out."""
        asked = {name: query[name][:200] for name in _NAMES if query.get(name)}
        flags = [flag for flag in asked.pop("flags", "").split(",") if flag in FLAGS]
        if flags:
            asked["flags"] = ",".join(flags)
        if asked.get("age") not in AGES:
            asked.pop("age", None)
        if "least_ms" in asked and not _is_number(asked["least_ms"]):
            del asked["least_ms"]
        return cls(asked)

    def set_filter(self, name: str, value: Any) -> None:
        """Set the filter `name` to `value`, and return to the first page."""
        text = ",".join(value) if isinstance(value, list) else str(value or "").strip()
        if text:
            self.asked[name] = text[:200]
        else:
            self.asked.pop(name, None)
        self.cursors.clear()

    def get_filter(self, name: str) -> str:
        return self.asked.get(name, "")

    @property
    def flags(self) -> list[str]:
        return [flag for flag in self.get_filter("flags").split(",") if flag]

    def page_query(self) -> str:
        """The query of the page's address, with its question mark; empty where nothing is asked."""
        return f"?{urlencode(self.asked)}" if self.asked else ""

    def api_query(self, limit: int) -> dict[str, Any]:
        """Return the query of `/requests` for `limit` rows."""
        query: dict[str, Any] = dict(self.asked, limit=limit)
        age = query.pop("age", None)
        if age is not None:
            query["since"] = time.time() - AGES[age]
        if self.cursors:
            query["cursor"] = self.cursors[-1]
        return query


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
