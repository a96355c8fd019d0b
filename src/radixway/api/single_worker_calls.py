"""Calls that clients make to one engine, answered by one ready worker: what it is, its tokenizer."""

from collections.abc import Callable, Sequence

import msgspec
from fastapi import APIRouter, Request, Response

from radixway._version import __version__
from radixway.api.request_headers import request_target
from radixway.core.http import LazyRouter
from radixway.core.pipeline import (
    ANY_MODEL,
    GatewayError,
    ModelNotServedError,
    NoWorkersError,
    TenantPolicy,
)
from radixway.routing import DefaultModelResolver, Worker, WorkerRegistry
from radixway.routing.transports import HttpTransport

_QUESTIONS = ("/get_model_info", "/model_info", "/server_info", "/get_server_info")
_TOKENIZER = ("/tokenize", "/v1/tokenize", "/detokenize", "/v1/detokenize")


class _NamesModel(msgspec.Struct):
    model: str | None = None


_named = msgspec.json.Decoder(_NamesModel)
_split = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SingleWorkerCalls:
    """Sends a call to one worker that its caller may use, and to the next where that cannot be reached."""

    def __init__(
        self,
        registry: WorkerRegistry,
        transport: HttpTransport,
        models: DefaultModelResolver,
        tenancy_of: Callable[[Request], TenantPolicy | None],
    ) -> None:
        """`models`: resolves aliases. `tenancy_of`: the tenant whose workers may answer."""
        self._registry = registry
        self._transport = transport
        self._models = models
        self._tenancy_of = tenancy_of

    async def ask_any(self, request: Request) -> Response:
        """Return the reply of one ready worker. Raises NoWorkersError."""
        workers = self._candidates(None, self._tenancy_of(request))
        return await self._ask_first(request, workers, await request.body())

    async def ask_tokenizer(self, request: Request) -> Response:
        """Return the reply of a worker of the model that the body names, if it names one.

        The body travels as it came, but for an alias in it. Raises NoWorkersError, ModelNotServedError.
        """
        body, tenancy = await request.body(), self._tenancy_of(request)
        model = _read_model(body)
        if model is not None and (named := self._models.resolve_model(model, tenancy)) is not None:
            body = msgspec.json.encode(
                _split.decode(body) | {"model": msgspec.Raw(msgspec.json.encode(named))}
            )
            model = named
        workers = self._candidates(None if model in (None, "", ANY_MODEL) else model, tenancy)
        if (
            not workers
            and model
            and (
                self._registry.definitely_lacks_model(model)
                or not (tenancy is None or tenancy.allows_model(model))
            )
        ):
            raise ModelNotServedError(model)
        return await self._ask_first(request, sorted(workers, key=_lacks_tokenizer), body)

    def _candidates(self, model: str | None, tenancy: TenantPolicy | None) -> Sequence[Worker]:
        workers = self._registry.candidates(model)
        if tenancy is None:
            return workers
        if model is not None and not tenancy.allows_model(model):
            return ()
        return [worker for worker in workers if tenancy.may_use_worker(worker.pools, worker.models)]

    async def _ask_first(self, request: Request, workers: Sequence[Worker], body: bytes) -> Response:
        for worker in workers:
            try:
                status, kind, answer = await self._transport.call_worker(
                    worker, request.method, request_target(request), body, via=request.headers.get("via")
                )
            except GatewayError:
                continue
            return Response(answer, status, media_type=kind)
        raise NoWorkersError("no worker can answer now")


def single_worker_routes(calls: SingleWorkerCalls) -> APIRouter:
    """Build the questions that go to one ready worker, and `/version`."""
    router = LazyRouter(tags=["sglang"])
    for path in _QUESTIONS:
        router.add_api_route(path, calls.ask_any, methods=["GET"])
    for path in _TOKENIZER:
        router.add_api_route(path, calls.ask_tokenizer, methods=["POST"])
    router.add_api_route("/concate_and_append_request", calls.ask_any, methods=["POST"])

    @router.get("/version")
    async def version() -> dict[str, str]:
        """Return the gateway's version."""
        return {"version": __version__}

    return router


def _read_model(body: bytes) -> str | None:
    try:
        return _named.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the worker says what is wrong with it


def _lacks_tokenizer(worker: Worker) -> bool:
    return not worker.info.tokenizes
