"""The small API server of `kubernetes_api`, with all that an operator needs besides: it can be written to.

Server-side apply with field managers, status as a subresource, schemas of CRDs, what owners own collected.
It has no kubelet and no controllers: tests play those. What a real one does beyond that is not tested here.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import jsonschema
from aiohttp import web

from support.kubernetes_api import KubernetesApi, Object, serving, status
from support.kubernetes_objects import applied, merged, patched, written


@dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = True
    schema: Any = None
    """openAPIV3Schema of a CRD."""

    @property
    def path(self) -> str:
        return f"{self.group}/{self.version}/{self.plural}".lstrip("/")

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}".lstrip("/")


BUILT_IN = (
    Kind("", "v1", "configmaps", "ConfigMap", status=False),
    Kind("", "v1", "events", "Event", status=False),
    Kind("", "v1", "namespaces", "Namespace", namespaced=False),
    Kind("", "v1", "services", "Service"),
    Kind("apps", "v1", "statefulsets", "StatefulSet"),
    Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", status=False),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    ),
)


def kinds_of(crds: Iterable[Object]) -> list[Kind]:
    """The kinds that these CustomResourceDefinitions define."""
    return [
        Kind(
            crd["spec"]["group"],
            version["name"],
            crd["spec"]["names"]["plural"],
            crd["spec"]["names"]["kind"],
            crd["spec"]["scope"] == "Namespaced",
            "status" in version.get("subresources", {}),
            version["schema"]["openAPIV3Schema"],
        )
        for crd in crds
        for version in crd["spec"]["versions"]
    ]


def strict(schema: Any) -> Any:
    """The schema as JSON Schema that refuses what a structural schema would prune."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: strict(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not open_ended:
        told["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        told = {"type": ["integer", "string"]}
    return told


@dataclass
class KubernetesServer(KubernetesApi):
    """Kinds are `apps/v1/statefulsets`, or `v1/services`; what is in no other namespace is in `ai`."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """`METHOD /path` of every call."""
    _failures: list[int] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # What tests do and see.

    def get(self, resource: str, name: str, namespace: str = "ai") -> Object | None:
        """A copy."""
        return copy.deepcopy(self._objects.get(resource, {}).get((namespace, name)))

    def put(self, kind: str, subject: Object, part: str | None = None) -> None:
        """Create or replace an object, as any other client would. `part`: `status`, for that alone."""
        namespace = subject["metadata"].get("namespace", "ai") if self.kinds[kind].namespaced else ""
        self._store(self.kinds[kind], namespace, subject["metadata"]["name"], subject, part)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object, and what it owns."""
        uid = self._objects[kind][namespace, name]["metadata"]["uid"]
        super().delete(kind, namespace, name)
        everything = [(kind, key) for kind, found in self._objects.items() for key in found]
        for other, key in everything:
            owned = self._objects[other].get(key)
            owners = owned["metadata"].get("ownerReferences", ()) if owned is not None else ()
            if any(owner["uid"] == uid for owner in owners):
                self.delete(other, *key)

    def fail(self, *statuses: int) -> None:
        """Answer the next calls that change something with these."""
        self._failures += statuses

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until `holds()` is true after some change, and give what it gives."""
        async with asyncio.timeout(60):
            while not (found := holds()):
                self._changed.clear()
                await self._changed.wait()
            return found

    # Its inside.

    def _happen(self, event: str, kind: str, subject: Object, before: Object | None) -> None:
        super()._happen(event, kind, subject, before)
        self._changed.set()

    def _store(self, kind: Kind, namespace: str, name: str, new: Object, part: str | None = None) -> Object:
        old = self.get(kind.path, name, namespace)
        stored = written(old, new, part)
        metadata = stored["metadata"]
        metadata |= {"name": name, "namespace": namespace}
        metadata.setdefault("uid", str(uuid4()))
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        stored |= {"apiVersion": kind.api_version, "kind": kind.kind}
        if kind.schema is not None:
            given = {key: value for key, value in stored.items() if key != "metadata"}
            jsonschema.validate(given, strict(kind.schema))
        if old != stored:
            super().put(kind.path, stored)
        return self._objects[kind.path][namespace, name]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Every call."""
        self.requests.append(f"{request.method} {request.path}")
        if (told := self._discovery(request.path.strip("/"))) is not None:
            return web.json_response(told)
        if request.method != "GET" and self._failures:
            return status(self._failures.pop(0), "the test says so")
        try:
            return await self._resource(request)
        except KeyError as error:
            return status(404, f"{error} not found")
        except PermissionError as error:
            return status(409, str(error))
        except jsonschema.ValidationError as error:
            return status(422, f"{error.json_path}: {error.message}")

    def _discovery(self, path: str) -> Object | None:
        groups: dict[str, str] = {kind.group: kind.version for kind in self.kinds.values() if kind.group}
        if path == "version":
            return {"major": "1", "minor": "37"}
        if path == "api":
            return {"versions": ["v1"]}
        if path == "apis":
            return {"groups": [_group(name, version) for name, version in groups.items()]}
        prefix, _, api_version = path.partition("/")
        found = [kind for kind in self.kinds.values() if kind.api_version == api_version]
        if prefix not in ("api", "apis") or not found:
            return None
        named = []
        for kind in found:
            verbs = ["get", "list", "watch", "patch", "delete"]
            entry = {"kind": kind.kind, "namespaced": kind.namespaced, "verbs": verbs}
            named.append({"name": kind.plural, "singularName": kind.kind.lower(), **entry})
            if kind.status:
                named.append({"name": f"{kind.plural}/status", "singularName": "", **entry})
        return {"groupVersion": api_version, "resources": named}

    async def _resource(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")[1:]
        group = [] if parts[0] == "v1" else [parts.pop(0)]
        version = parts.pop(0)
        namespace = None
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind = self.kinds["/".join([*group, version, parts[0]])]
        name, part = (*parts[1:], None, None)[:2]
        if name is None:
            return await self._all_of(request, kind.path, namespace)
        match request.method:
            case "GET":
                return web.json_response(self._objects[kind.path][namespace or "", name])
            case "PATCH":
                return await self._patch(request, kind, (namespace or "", name, part))
            case "DELETE":
                self.delete(kind.path, namespace or "", name)
                return web.json_response({"kind": "Status", "status": "Success"})
        return status(405, request.method)

    async def _patch(
        self, request: web.Request, kind: Kind, where: tuple[str, str, str | None]
    ) -> web.Response:
        namespace, name, part = where
        old = self.get(kind.path, name, namespace)
        body = json.loads(await request.text())
        if request.content_type == "application/apply-patch+yaml":
            force = request.query.get("force") == "true"
            new = applied(old, body, request.query["fieldManager"], force)
        elif old is None:
            raise KeyError(name)
        else:
            new = patched(old, body) if isinstance(body, list) else merged(old, body)
        if old is not None and new["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise PermissionError(f"{name} has changed")
        return web.json_response(self._store(kind, namespace, name, new, part))


def _group(name: str, version: str) -> Object:
    told = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [told], "preferredVersion": told}


@asynccontextmanager
async def kubernetes_server(crds: Sequence[Object] = ()) -> AsyncIterator[KubernetesServer]:
    """One that serves on loopback, with these CustomResourceDefinitions and the namespace `ai`."""
    server = KubernetesServer(kinds={kind.path: kind for kind in (*BUILT_IN, *kinds_of(crds))})
    async with serving(server):
        for crd in crds:
            server.put("apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        server.put("v1/namespaces", {"metadata": {"name": "ai"}})
        yield server
