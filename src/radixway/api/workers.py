"""Adding, draining, removing and listing workers, as the Slime router's users know it.

`/workers` is where workers register themselves.
"""

from collections import Counter
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from radixway.api.admin_access import AdminAccess
from radixway.core.config import WorkerSettings, check_worker_url
from radixway.core.http import LazyRouter
from radixway.core.pipeline import BadRequest, GatewayError, WorkerNotFoundError
from radixway.routing import API, FleetMembership, HealthMonitor, Worker, WorkerRegistry, WorkerState


def worker_routes(
    registry: WorkerRegistry, membership: FleetMembership, health: HealthMonitor, access: AdminAccess
) -> APIRouter:
    """Build `/add_worker`, `/remove_worker`, `/drain_worker`, `/resume_worker` and `/list_workers`.

    What they take is a query or a JSON body.
    """
    router = LazyRouter(tags=["workers"])
    guarded = [Depends(access)]

    @router.post("/add_worker", dependencies=guarded)
    async def add_worker(request: Request) -> dict[str, Any]:
        """Add or update a worker. It serves once it passes its first health check, awaited here."""
        await health.wait_first_probe(
            membership.join_worker(API, parse_worker(await read_worker_fields(request)))
        )
        return _worker_loads(registry)

    @router.post("/remove_worker", dependencies=guarded)
    async def remove_worker(request: Request) -> dict[str, Any]:
        """Forget a worker. Requests it is answering go on to their end."""
        registry.remove_worker(find_worker(registry, await read_worker_fields(request)).url)
        return _worker_loads(registry)

    @router.post("/drain_worker", dependencies=guarded)
    async def drain_worker(request: Request) -> dict[str, Any]:
        """Send a worker nothing new; it stays listed. `/resume_worker` brings it back."""
        registry.set_state(find_worker(registry, await read_worker_fields(request)), WorkerState.DRAINING)
        return _worker_loads(registry)

    @router.post("/resume_worker", dependencies=guarded)
    async def resume_worker(request: Request) -> dict[str, Any]:
        """Send a draining worker requests again, with the settings it had, once it passes a probe."""
        worker = find_worker(registry, await read_worker_fields(request))
        if worker.state is WorkerState.DRAINING:
            if not membership.resume_worker(worker):
                raise WorkerLeavingError(worker)
            await health.wait_first_probe(worker)
        return _worker_loads(registry)

    @router.get("/list_workers")
    async def list_workers() -> dict[str, Any]:
        """List every worker's URL, and beside it what is known of each."""
        return {
            "urls": [worker.url for worker in registry],
            "workers": [worker.describe() for worker in registry],
        }

    return router


def _worker_loads(registry: WorkerRegistry) -> dict[str, Any]:
    return {
        "status": "success",
        "worker_urls": {worker.url: worker.load.requests for worker in registry},
    }


async def read_worker_fields(request: Request) -> dict[str, Any]:
    """Return the fields of the query and JSON body of `request`; `worker_url` is another name of `url`."""
    fields: dict[str, Any] = dict(request.query_params)
    raw = await request.body()
    if raw:
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not valid JSON: {error}") from None
        if not isinstance(body, dict):
            raise BadRequest("the body must be a JSON object")
        fields |= body
    if "worker_url" in fields:
        fields["url"] = fields.pop("worker_url")
    if not isinstance(fields.get("url"), str) or not fields["url"]:
        raise BadRequest("url is needed: the worker's http(s) address", param="url")
    return fields


def parse_worker(fields: dict[str, Any]) -> WorkerSettings:
    """Build worker settings from `fields`; unknown ones are ignored. Raises BadRequest."""
    for several in ("models", "pools"):
        if isinstance(fields.get(several), str):  # a query can only carry text
            fields[several] = [name for name in fields[several].split(",") if name]
    _apply_worker_type(fields)
    known = {name: value for name, value in fields.items() if name in WorkerSettings.model_fields}
    try:
        return WorkerSettings.model_validate(known)
    except ValidationError as error:
        mistake = error.errors()[0]
        field = ".".join(str(part) for part in mistake["loc"])
        raise BadRequest(f"{field}: {mistake['msg'].removeprefix('Value error, ')}", param=field) from None


def _apply_worker_type(fields: dict[str, Any]) -> None:
    """Translate Slime's `worker_type` and `bootstrap_port` to `role` and `disaggregation`."""
    kind = fields.get("worker_type") or "regular"
    if kind not in ("regular", "prefill", "decode"):
        raise BadRequest("worker_type is regular, prefill or decode", param="worker_type")
    if kind != "regular":
        port = {"bootstrap_port": fields["bootstrap_port"]} if fields.get("bootstrap_port") else {}
        fields.setdefault("role", kind)
        fields.setdefault("disaggregation", {"dialect": "sglang"} | port)


def find_worker(registry: WorkerRegistry, fields: dict[str, Any]) -> Worker:
    """Return the worker whose `url` is in `fields`. Raises WorkerNotFoundError."""
    try:
        worker = registry.get_worker(check_worker_url(fields["url"]))
    except ValueError:
        worker = None
    if worker is None:
        raise WorkerNotFoundError("there is no worker of that URL; /list_workers names them all")
    return worker


_HEARTBEATS_PER_LEASE = 3
"""Heartbeats per lease, so that one may be lost."""
_OTHER_NAMES = {"worker_url", "worker_type", "bootstrap_port", "model", "model_id", "ttl_s"}
_PASSED_OVER = frozenset(
    {
        *("runtime", "runtime_type", "connection_mode", "disable_health_check"),
        *("tokenizer_path", "reasoning_parser", "tool_parser", "chat_template", "dp_aware", "health"),
    }
)
"""Fields of SMG's workers that have no meaning here."""


class WorkerExistsError(GatewayError):
    """A worker that is to be added is there already."""

    status = 409
    code = "worker_exists"
    param = "url"

    def __init__(self, url: str) -> None:
        super().__init__(
            f"there is a worker at {url} already: PUT /workers/{find_worker_id(url)} replaces it, PATCH"
            " changes it; a heartbeat names its ttl_s"
        )

    def body(self) -> bytes:
        """The body of an error reply, with the code where SMG's clients read it, too."""
        told: dict[str, Any] = msgspec.json.decode(super().body())
        return msgspec.json.encode(told | {"code": "WORKER_ALREADY_EXISTS"})


class WorkerLeavingError(GatewayError):
    """A worker that is to be resumed drains because what named it says so."""

    status = 409
    code = "worker_leaving"
    param = "url"

    def __init__(self, worker: Worker) -> None:
        names = ", ".join(worker.sources) or "nothing names it any more"
        super().__init__(f"{worker.url} drains because its source says so ({names}): resume it there")


class WorkerRegistrar(Protocol):
    """The registry of workers' leases."""

    most_ttl_s: float

    def register_worker(self, section: WorkerSettings, ttl_s: float | None) -> float | None:
        """Register the worker of `section` for `ttl_s` seconds; return how long: None, for good."""
        ...

    def deregister_worker(self, worker: Worker) -> None:
        """Send `worker` nothing new, and forget it when it has finished its requests."""
        ...

    def forget_worker(self, url: str) -> None:
        """Forget the lease at `url`, whose worker is gone."""
        ...

    def lease_left_s(self, url: str) -> float | None:
        """Return how many seconds the lease at `url` lasts, if there is one."""
        ...


def registration_routes(
    registry: WorkerRegistry, registrar: WorkerRegistrar, health: HealthMonitor, access: AdminAccess
) -> APIRouter:
    """Build `POST`, `DELETE` and `GET /workers`, by which workers register with `registrar`."""
    router = LazyRouter(tags=["workers"])
    guarded = [Depends(access)]

    @router.post("/workers", dependencies=guarded)
    async def register(request: Request, response: Response) -> dict[str, Any]:
        """Register a worker for `ttl_s` seconds; the same call with its `ttl_s` again is its heartbeat."""
        fields = await read_worker_fields(request)
        check_worker_fields(fields)
        names_ttl = "ttl_s" in fields
        ttl_s = _read_ttl(fields.pop("ttl_s", None), registrar.most_ttl_s)
        section = parse_worker(fields)
        known = registry.get_worker(section.url)
        exists = not names_ttl and known is not None and known.state is not WorkerState.DRAINING
        if not exists or registrar.lease_left_s(section.url) is not None:
            ttl_s = registrar.register_worker(section, ttl_s)
        if exists:
            raise WorkerExistsError(section.url)
        worker = registry.get_worker(section.url)
        if worker is not None:
            await health.wait_first_probe(worker)
        worker_id = find_worker_id(section.url)
        response.headers["location"] = f"/workers/{worker_id}"
        state = _registration_state(section.url, worker) | {
            "ttl_s": ttl_s,
            "heartbeat_s": round((ttl_s or 0.0) / _HEARTBEATS_PER_LEASE, 3),
        }
        if not names_ttl:  # as clients of SMG call, which keep the id
            state |= {"status": "accepted", "worker_id": worker_id, "location": f"/workers/{worker_id}"}
        return state

    @router.delete("/workers", dependencies=guarded)
    async def deregister(request: Request) -> dict[str, Any]:
        """Deregister a worker: it gets nothing new, and is forgotten when its requests have ended."""
        fields = await read_worker_fields(request)
        try:
            worker = find_worker(registry, fields)
        except WorkerNotFoundError:
            registrar.forget_worker(fields["url"])
            raise
        registrar.deregister_worker(worker)
        return _registration_state(worker.url, registry.get_worker(worker.url))

    @router.get("/workers")
    async def workers() -> dict[str, Any]:
        """List workers as `/list_workers` does, with the lease of each registered one, and count them."""
        found = [describe_registration(each, registrar.lease_left_s(each.url)) for each in registry]
        counts = Counter(worker["worker_type"] for worker in found)
        stats = {f"{kind}_count": counts[kind] for kind in ("prefill", "decode", "regular")}
        return {"workers": found, "total": len(found), "stats": stats}

    return router


def find_worker_id(url: str) -> str:
    """Return the id of the worker at `url`: the same in every process, and after a restart."""
    return str(uuid5(NAMESPACE_URL, url))


def describe_registration(worker: Worker, lease_left_s: float | None) -> dict[str, Any]:
    """Return `worker` as `/workers` shows it, with the names that clients of SGLang's gateway (SMG) read.

    `lease_left_s`: how long its registration lasts, if it has one.
    """
    return worker.describe() | {
        "lease_left_s": None if lease_left_s is None else round(lease_left_s, 3),
        "id": find_worker_id(worker.url),
        "model_id": worker.models[0] if worker.models else None,
        "is_healthy": worker.state is WorkerState.READY,
        "load": worker.load.requests,
        "worker_type": "regular" if worker.role == "any" else worker.role,
        "connection_mode": "http",
        "bootstrap_port": worker.bootstrap_port,
        **worker.config.model_dump(include={"labels", "priority", "cost"}),
    }


def check_worker_fields(fields: dict[str, Any]) -> None:
    """Check the names of `fields`, and take out those of other gateways. Raises BadRequest."""
    known = WorkerSettings.model_fields.keys() | _OTHER_NAMES
    unknown = next((name for name in fields if name not in known and name not in _PASSED_OVER), None)
    if unknown is not None:  # it would have no effect
        raise BadRequest(f"{unknown}: there is no such field of a worker", param=unknown)
    for name in _PASSED_OVER:
        fields.pop(name, None)
    for name in ("model", "model_id"):
        if name in fields:
            model = fields.pop(name)
            if not isinstance(model, str) or not model:
                raise BadRequest(f"{name} must be a model's name", param=name)
            fields.setdefault("models", [model])


def _registration_state(url: str, worker: Worker | None) -> dict[str, Any]:
    if worker is None:
        return {"url": url, "state": "gone", "in_flight": 0}
    return {"url": url, "state": worker.state.value, "in_flight": worker.load.requests}


def _read_ttl(given: Any, max_s: float) -> float | None:
    if given is None:
        return None
    try:
        ttl_s = float(given)  # a query can only carry text
    except (TypeError, ValueError, OverflowError):
        ttl_s = 0.0
    if isinstance(given, bool) or not 0 < ttl_s <= max_s:
        raise BadRequest(
            f"ttl_s must be a number of seconds, more than 0 and at most {max_s:g}", param="ttl_s"
        )
    return ttl_s
