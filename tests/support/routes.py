"""Which paths a gateway and an engine answer on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.routing import Mount

from radixway.api.chats.paths import is_response_path
from radixway.core.pipeline import ENDPOINTS
from radixway.core.pipeline.endpoints import SURFACE_ENDPOINTS
from radixway.engine.server.app import _MODEL_ROUTE, _ROUTES
from support.running_gateway import RunningGateway

OF_OTHERS = {"/safety", "/wait_for"}
"""Told of in the documentation, and answered by somebody else."""


@dataclass
class Routes:
    templates: list[tuple[set[str], list[str]]] = field(default_factory=list)
    """Methods, and a path in its parts; one in braces stands for any, with `:path` for all that follow."""

    def add(self, methods: Iterable[str], path: str) -> None:
        self.templates.append(({method.upper() for method in methods}, path.split("/")))

    def answers(self, method: str, path: str) -> bool:
        """Whether anybody answers there. What is a placeholder in `path` may be written in any usual way."""
        path = re.sub(r"\{[^}]*\}|\$\{?\w+\}?|…|\b[A-Z][A-Z_]+\b", "{}", path.partition("?")[0])
        if is_response_path(path) or path in OF_OTHERS:
            return True
        parts = path.split("/")
        return any(method in methods and _fits(parts, template) for methods, template in self.templates)


def _fits(parts: list[str], template: list[str]) -> bool:
    if template[-1].endswith(":path}"):
        parts = [*parts[: len(template) - 1], "{}"] if len(parts) >= len(template) else []
    return len(parts) == len(template) and all(
        one == other or one.startswith("{") or other.startswith("{")
        for one, other in zip(parts, template, strict=True)
    )


async def routes_of(running: RunningGateway) -> Routes:
    """Of that gateway, and of any engine."""
    routes = Routes()
    for route in running.gateway._fastapi.routes:
        if isinstance(route, Mount):
            routes.add({"GET"}, f"{route.path}/{{rest:path}}")
        else:
            routes.add(getattr(route, "methods", None) or {"GET"}, route.path)
    for endpoint in (*ENDPOINTS, *SURFACE_ENDPOINTS):
        for path in endpoint.paths:
            routes.add(endpoint.methods, path)
    _, chats = await running.get("/openapi/chats.json")
    for path, item in chats["paths"].items():
        routes.add(item, path)
    routes.add({"GET"}, "/openapi/chats.json")
    for path, methods in _ROUTES.items():
        routes.add(methods, path)
    routes.add(_MODEL_ROUTE, "/v1/models/{name:path}")
    return routes
