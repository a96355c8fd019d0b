"""Grafana's JSON from a few words: a board is rows, a row is panels, a panel is queries with their legends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH = 24
_HEIGHT = 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: a query by its legend."""

    title: str
    unit: str
    """Grafana's: `short`, `s`, `percentunit`, `reqps`, `bytes` …"""
    queries: dict[str, str]
    about: str = ""
    kind: str = "timeseries"
    """Also `stat`: the latest number; `table`: a row for each series; `heatmap` of a histogram's buckets."""
    width: int = 8
    stacked: bool = False

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """At a place on the grid."""
        now = self.kind in ("stat", "table")
        style: dict[str, Any] = {"unit": self.unit, "min": 0}
        if self.kind == "timeseries":
            style["custom"] = {
                "fillOpacity": 20 if self.stacked else 5,
                "stacking": {"mode": "normal" if self.stacked else "none"},
            }
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.about,
            "datasource": _SOURCE,
            "gridPos": {"h": _HEIGHT, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": style, "overrides": []},
            "options": _OPTIONS[self.kind],
            "targets": [
                {
                    "refId": chr(ord("A") + at),
                    "datasource": _SOURCE,
                    "expr": expr,
                    "legendFormat": legend,
                    "instant": now,
                    "range": not now,
                    "format": {"table": "table", "heatmap": "heatmap"}.get(self.kind, "time_series"),
                }
                for at, (legend, expr) in enumerate(self.queries.items())
            ],
        }


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"colorMode": "none", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}},
    "table": {"showHeader": True},
    "heatmap": {"calculate": False, "yAxis": {"unit": "s"}, "color": {"mode": "scheme", "scheme": "Blues"}},
}


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading, as many beside each other as there is room for."""

    title: str
    panels: list[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `variables` are labels that viewers choose by, each with a metric that has it."""

    name: str
    title: str
    rows: list[Row]
    variables: dict[str, str] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """As Grafana imports it."""
        return {
            "uid": f"radixway-{self.name}",
            "title": f"Radixway: {self.title}",
            "tags": ["radixway"],
            "schemaVersion": 39,
            "version": 1,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "links": [
                {
                    "type": "dashboards",
                    "tags": ["radixway"],
                    "title": "Radixway",
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "templating": {
                "list": [
                    {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                    *(_variable(label, metric) for label, metric in self.variables.items()),
                ]
            },
            "panels": list(self._panels()),
        }

    def _panels(self) -> list[dict[str, Any]]:
        placed: list[dict[str, Any]] = []
        y = 0
        for row in self.rows:
            at = {"h": 1, "w": _WIDTH, "x": 0, "y": y}
            heading = {"id": len(placed) + 1, "type": "row", "title": row.title, "collapsed": False}
            placed.append(heading | {"gridPos": at, "panels": []})
            x, y = 0, y + 1
            for panel in row.panels:
                if x + panel.width > _WIDTH:
                    x, y = 0, y + _HEIGHT
                placed.append(panel.json(len(placed) + 1, x, y))
                x += panel.width
            y += _HEIGHT
        return placed


def _variable(label: str, metric: str) -> dict[str, Any]:
    """Values of a label; with All, which is a pattern that also fits series without it."""
    query = f"label_values({metric}, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
