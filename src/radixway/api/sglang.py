"""SGLang's calls for a whole fleet: each goes to every worker, and the reply has every worker's result.

Pausing, aborting, flushing and new weights make sense only if all workers do them. Bodies pass untouched,
tensors included, to every worker that is known and not removed, ready or not; `?worker=URL` (or a name, and
more than once) narrows that down. The answer has SGLang's `success` and `message`, and `workers`::

    {"success": false, "message": "1 of 2 workers did it", "error": {…},
     "workers": {"http://a:1": {"done": true, "status": 200, "answer": {…}},
                 "http://b:2": {"done": false, "status": null, "answer": "… connection refused"}}}

200 if all did it; the workers' own 4xx if all refuse; 502 otherwise.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from radixway.api.admin_access import AdminAccess
from radixway.api.client_requests import decode_body
from radixway.api.request_headers import request_target
from radixway.core.http import HttpError, LazyRouter
from radixway.core.pipeline import (
    AbortedRequests,
    BadRequest,
    InFlightRequests,
    NoWorkersError,
    WorkerNotFoundError,
)
from radixway.routing import WeightVersionTracker, Worker, WorkerRegistry, parse_version
from radixway.routing.transports import FanOut, FanOutCall, FanOutResult

_CALLS = (
    "/pause_generation",
    "/continue_generation",
    "/release_memory_occupation",
    "/resume_memory_occupation",
    "/init_weights_update_group",
    "/destroy_weights_update_group",
)
_UPDATES = (
    "/update_weights_from_disk",
    "/update_weights_from_tensor",
    "/update_weights_from_distributed",
    "/update_weights_from_ipc",
    "/update_weight_version",
)


class _FleetCallFields(msgspec.Struct):
    """The fields that the gateway reads; workers check the rest."""

    weight_version: Any = None
    new_version: Any = None
    rid: Any = None
    abort_all: Any = None


class _ExpectWeightVersionBody(msgspec.Struct):
    weight_version: str | int | None


_named = msgspec.json.Decoder(_FleetCallFields)


class FleetControl:
    """Calls that go to all workers of the fleet."""

    def __init__(
        self,
        registry: WorkerRegistry,
        fan_out: FanOut,
        weights: WeightVersionTracker,
        in_hand: InFlightRequests,
        aborted: AbortedRequests,
    ) -> None:
        self.weights = weights
        self._registry = registry
        self._fan_out = fan_out
        self._in_hand = in_hand
        self._aborted = aborted
        self._updates = asyncio.Lock()
        """Two updates at once would leave workers with different weights."""

    async def broadcast_call(self, request: Request) -> Response:
        """Pass `request` on to all workers, or to those it names."""
        call, named = await _read_fleet_call(request)
        return _combined_response(await self._fan_out(call, self._named_workers(named)))

    async def broadcast_weight_update(self, request: Request) -> Response:
        """Pass the new weights of `request` on: from then on only workers that have them are used."""
        call, named = await _read_fleet_call(request)
        version = _requested_version(request, call)
        async with self._updates:
            workers = self._named_workers(named)
            with self.weights.update_in_progress(version):
                outcomes = await self._fan_out(call, workers)
                taken = {
                    worker: _reported_version(outcome) or version
                    for worker, outcome in outcomes.items()
                    if outcome.is_done
                }
                self.weights.record_update(taken, outcomes.keys() - taken.keys(), None if named else version)
        return _combined_response(outcomes)

    async def abort_requests(self, request: Request) -> Response:
        """Abort the request that `request` names, wherever it is, or all of them."""
        call, named = await _read_fleet_call(request)
        fields = _decode_fields(call)
        workers: Sequence[Worker] = ()
        if fields.abort_all is True:
            self._aborted.mark_all_aborted()
        elif isinstance(fields.rid, str) and fields.rid:
            self._aborted.mark_aborted(fields.rid)
            names = {
                name
                for found in self._in_hand.match_requests(fields.rid)
                for name in found.routing.active_workers
            }
            workers = [worker for worker in self._registry if worker.name in names]
        if named or not workers:
            workers = self._named_workers(named)
        return _combined_response(await self._fan_out(call, workers))

    def _named_workers(self, named: Sequence[str]) -> Sequence[Worker]:
        if not named:
            if workers := tuple(worker for worker in self._registry if worker.hosted is None):
                return workers
            raise NoWorkersError("there are no workers: /add_worker")
        wanted = dict.fromkeys(name.rstrip("/") for name in named)
        by_name = {name: worker for worker in self._registry for name in (worker.url, worker.name)}
        for name in wanted:
            if name not in by_name:
                message = f"there is no worker {name!r}; /list_workers names them all"
                raise WorkerNotFoundError(message, param="worker")
        return list(dict.fromkeys(by_name[name] for name in wanted))


def fleet_routes(fleet: FleetControl, access: AdminAccess) -> APIRouter:
    """Build the calls that go to all workers of `fleet`, and `/expect_weight_version`."""
    router = LazyRouter(tags=["fleet"])
    guarded = [Depends(access)]
    for path in _CALLS:
        router.add_api_route(path, fleet.broadcast_call, methods=["POST"], dependencies=guarded)
    for path in _UPDATES:
        router.add_api_route(path, fleet.broadcast_weight_update, methods=["POST"], dependencies=guarded)
    for method in ("GET", "POST"):  # a route each: OpenAPI wants another name for each
        router.add_api_route("/flush_cache", fleet.broadcast_call, methods=[method], dependencies=guarded)
    router.add_api_route("/abort_request", fleet.abort_requests, methods=["POST"], dependencies=guarded)

    @router.get("/get_weight_version")
    @router.get("/weight_version")
    async def weight_version() -> dict[str, Any]:
        """The fleet's weight version, and each worker's as far as is known."""
        return fleet.weights.describe()

    @router.post("/expect_weight_version", dependencies=guarded)
    async def expect_weight_version(request: Request) -> dict[str, Any]:
        """Use only workers of this version, however they came by it; null: of any version again."""
        given = (await decode_body(request, _ExpectWeightVersionBody)).weight_version
        version = parse_version(given)
        if version is None and given is not None:
            raise BadRequest("weight_version has 1 to 256 characters, or is null", param="weight_version")
        fleet.weights.set_expected(version)
        return fleet.weights.describe()

    return router


async def _read_fleet_call(request: Request) -> tuple[FanOutCall, Sequence[str]]:
    named = request.query_params.getlist("worker")
    call = FanOutCall(
        request_target(request, without="worker"),
        await request.body(),
        request.headers.get("content-type", "application/json"),
        request.headers.get("via"),
    )
    return call, named


def _decode_fields(call: FanOutCall) -> _FleetCallFields:
    if call.content_type.partition(";")[0].strip().lower() == "application/json":
        try:
            return _named.decode(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return _FleetCallFields()


def _requested_version(request: Request, call: FanOutCall) -> str | None:
    fields = _decode_fields(call)
    if request.url.path == "/update_weight_version":
        return parse_version(fields.new_version)
    return parse_version(fields.weight_version) or parse_version(request.query_params.get("weight_version"))


def _reported_version(outcome: FanOutResult) -> str | None:
    if not isinstance(outcome.answer, dict):
        return None
    fields = outcome.answer
    return parse_version(fields.get("weight_version")) or parse_version(fields.get("new_version"))


def _combined_response(outcomes: Mapping[Worker, FanOutResult]) -> Response:
    done = sum(outcome.is_done for outcome in outcomes.values())
    reply: dict[str, Any] = {
        "success": done == len(outcomes),
        "message": f"{done} of {len(outcomes)} workers did it",
        "workers": {worker.url: outcome.describe() for worker, outcome in outcomes.items()},
    }
    if reply["success"]:
        return JSONResponse(reply)
    statuses = {outcome.status for outcome in outcomes.values()}
    error = HttpError(
        reply["message"] + "; `workers` has each one's answer", status=502, code="worker_failed"
    )
    if all(outcome.is_refused for outcome in outcomes.values()):
        status = statuses.pop() if len(statuses) == 1 else 400
        error = HttpError("all workers refused the call; `workers` has their answers", status=status)
        error.code = "refused_by_workers"
    return JSONResponse(msgspec.json.decode(error.body()) | reply, error.status)
