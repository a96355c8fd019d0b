"""SGLang's calls that concern a whole fleet: each reaches every worker, and says what each made of it.

Pausing, aborting, flushing and new weights make sense only if all workers do them. Bodies pass untouched,
tensors included, to every worker that is known and not removed, ready or not; `?worker=URL` (or a name, and
more than once) narrows that down. The answer has SGLang's `success` and `message`, and `workers`::

    {"success": false, "message": "1 of 2 workers did it", "error": {…},
     "workers": {"http://a:1": {"done": true, "status": 200, "answer": {…}},
                 "http://b:2": {"done": false, "status": null, "answer": "… connection refused"}}}

200 if all did it; the workers' own 4xx if all say that the call is wrong; 502 otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from radixway.pipeline import AbortedRequests, BadRequest, InHand, NoWorkers, WorkerNotFound
from radixway.routing import Registry, WeightVersions, Worker, read_version
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.headers import target_of
from radixway.transports import Call, FanOut, Outcome
from radixway.web import HttpError, read_json

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


class _Named(msgspec.Struct):
    """What is looked at of a body; what is wrong with it the workers say."""

    weight_version: Any = None
    new_version: Any = None
    rid: Any = None
    abort_all: Any = None


class _Expectation(msgspec.Struct):
    """The body of /expect_weight_version."""

    weight_version: str | int | None


_named = msgspec.json.Decoder(_Named)
_expectation = msgspec.json.Decoder(_Expectation)


class Fleet:
    """The workers as one."""

    def __init__(
        self,
        registry: Registry,
        fan_out: FanOut,
        weights: WeightVersions,
        in_hand: InHand,
        aborted: AbortedRequests,
    ) -> None:
        self.weights = weights
        self._registry = registry
        self._fan_out = fan_out
        self._in_hand = in_hand
        self._aborted = aborted
        self._updates = asyncio.Lock()
        """Two updates at once would leave workers with different weights."""

    async def tell(self, request: Request) -> Response:
        """Pass the call on to all workers, or to those it names."""
        call, named = await _read_call(request)
        return _answer(await self._fan_out(call, self._addressed(named)))

    async def update(self, request: Request) -> Response:
        """The same for new weights: from then on only workers that have them are used."""
        call, named = await _read_call(request)
        version = _version_of(request, call)
        async with self._updates:
            workers = self._addressed(named)
            with self.weights.updating(version):
                outcomes = await self._fan_out(call, workers)
                taken = {
                    worker: _said_version(outcome) or version
                    for worker, outcome in outcomes.items()
                    if outcome.done
                }
                self.weights.updated(taken, outcomes.keys() - taken.keys(), None if named else version)
        return _answer(outcomes)

    async def abort(self, request: Request) -> Response:
        """End a request wherever it is, or all of them."""
        call, named = await _read_call(request)
        said = _look(call)
        workers: Sequence[Worker] = ()
        if said.abort_all is True:
            self._aborted.abort_all()
        elif isinstance(said.rid, str) and said.rid:
            self._aborted.abort(said.rid)
            names = {name for found in self._in_hand.find(said.rid) for name in found.workers}
            workers = [worker for worker in self._registry if worker.name in names]
        if named or not workers:
            workers = self._addressed(named)
        return _answer(await self._fan_out(call, workers))

    def _addressed(self, named: Sequence[str]) -> Sequence[Worker]:
        """Raises WorkerNotFound, NoWorkers."""
        if not named:
            if workers := tuple(self._registry):
                return workers
            raise NoWorkers("there are no workers: /add_worker")
        wanted = dict.fromkeys(name.rstrip("/") for name in named)
        by_name = {name: worker for worker in self._registry for name in (worker.url, worker.name)}
        for name in wanted:
            if name not in by_name:
                message = f"there is no worker {name!r}; /list_workers names them all"
                raise WorkerNotFound(message, param="worker")
        return list(dict.fromkeys(by_name[name] for name in wanted))


def fleet_routes(fleet: Fleet, access: AdminAccess) -> APIRouter:
    """The calls that go to all workers, and `/expect_weight_version`."""
    router = APIRouter(tags=["fleet"])
    guarded = [Depends(access)]
    for path in _CALLS:
        router.add_api_route(path, fleet.tell, methods=["POST"], dependencies=guarded)
    for path in _UPDATES:
        router.add_api_route(path, fleet.update, methods=["POST"], dependencies=guarded)
    for method in ("GET", "POST"):  # a route each: OpenAPI wants another name for each
        router.add_api_route("/flush_cache", fleet.tell, methods=[method], dependencies=guarded)
    router.add_api_route("/abort_request", fleet.abort, methods=["POST"], dependencies=guarded)

    @router.get("/get_weight_version")
    @router.get("/weight_version")
    async def weight_version() -> dict[str, Any]:
        """The fleet's weight version, and each worker's as far as is known."""
        return fleet.weights.describe()

    @router.post("/expect_weight_version", dependencies=guarded)
    async def expect_weight_version(request: Request) -> dict[str, Any]:
        """Use only workers of this version, however they came by it; null: of any version again."""
        given = read_json(_expectation, await request.body()).weight_version
        version = read_version(given)
        if version is None and given is not None:
            raise BadRequest("weight_version has 1 to 256 characters, or is null", param="weight_version")
        fleet.weights.expect(version)
        return fleet.weights.describe()

    return router


async def _read_call(request: Request) -> tuple[Call, Sequence[str]]:
    """What to pass on, and the workers that it is for if it names any."""
    named = request.query_params.getlist("worker")
    call = Call(
        target_of(request, without="worker"),
        await request.body(),
        request.headers.get("content-type", "application/json"),
        request.headers.get("via"),
    )
    return call, named


def _look(call: Call) -> _Named:
    if call.content_type.partition(";")[0].strip().lower() == "application/json":
        try:
            return _named.decode(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return _Named()


def _version_of(request: Request, call: Call) -> str | None:
    """The version that an update gives the weights, if it names one."""
    said = _look(call)
    if request.url.path == "/update_weight_version":
        return read_version(said.new_version)
    return read_version(said.weight_version) or read_version(request.query_params.get("weight_version"))


def _said_version(outcome: Outcome) -> str | None:
    if not isinstance(outcome.answer, dict):
        return None
    said = outcome.answer
    return read_version(said.get("weight_version")) or read_version(said.get("new_version"))


def _answer(outcomes: Mapping[Worker, Outcome]) -> Response:
    done = sum(outcome.done for outcome in outcomes.values())
    told: dict[str, Any] = {
        "success": done == len(outcomes),
        "message": f"{done} of {len(outcomes)} workers did it",
        "workers": {worker.url: outcome.describe() for worker, outcome in outcomes.items()},
    }
    if told["success"]:
        return JSONResponse(told)
    statuses = {outcome.status for outcome in outcomes.values()}
    error = HttpError(told["message"] + "; `workers` has each one's answer", status=502, code="worker_failed")
    if all(outcome.refused for outcome in outcomes.values()):
        status = statuses.pop() if len(statuses) == 1 else 400
        error = HttpError("the workers refuse the call; `workers` has their words", status=status)
        error.code = "refused_by_workers"
    return JSONResponse(msgspec.json.decode(error.body()) | told, error.status)
