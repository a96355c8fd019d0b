"""The selector over HTTP, for data planes that forward requests themselves, and `/finish_session`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.client_requests import decode_body
from radixway.core.config import OverflowConfig
from radixway.core.http import LazyRouter, choose_request_id, decode_json, decode_query
from radixway.core.pipeline import (
    ANY_MODEL,
    CHAT_COMPLETIONS,
    COMPLETIONS,
    GENERATE,
    BadRequest,
    Endpoint,
    GatewayError,
    ModelName,
    ModelNotServedError,
    NoWorkersError,
)
from radixway.core.pipeline import Request as PipelineRequest
from radixway.core.telemetry import Journal
from radixway.routing import (
    AlreadyReservedError,
    LeaseReservations,
    PromptReader,
    RoutingRequest,
    Selector,
    TooManyReservationsError,
    Worker,
    WorkerChoice,
    WorkerRegistry,
)
from radixway.routing.transports.overflow import OverflowRule


class _FinishSessionBody(msgspec.Struct):
    session_id: Annotated[str, Meta(min_length=1)]


_decoder = msgspec.json.Decoder(_FinishSessionBody)


def affinity_routes(selector: Selector) -> APIRouter:
    """Build `POST /finish_session` of `selector`, with `session_id` in a JSON body or in the query."""
    router = LazyRouter(tags=["gateway"])

    @router.post("/finish_session")
    async def finish_session(request: Request) -> dict[str, Any]:
        """Forget where the session was. May be called again, and for sessions never seen."""
        raw = await request.body()
        body = decode_json(_decoder, raw) if raw else decode_query(request.query_params, _FinishSessionBody)
        return {"session_id": body.session_id, "finished": selector.end_session(body.session_id)}

    return router


_Id = Annotated[str, Meta(min_length=1, max_length=128)]


class _SelectBody(msgspec.Struct):
    """The gateway's own fields of a body of `/select`; its prompt is read as that of a request."""

    request_id: _Id | None = None
    model: ModelName | None = None
    workers: Annotated[list[str], Meta(min_length=1)] | None = None
    session: str | None = None
    stream: bool = True
    messages: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()

    @property
    def endpoint(self) -> Endpoint:
        return CHAT_COMPLETIONS if self.messages else COMPLETIONS if self.prompt else GENERATE


class _ReservationBody(msgspec.Struct):
    """Body of the calls that follow a reservation."""

    request_id: _Id
    blocks: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


_question = msgspec.json.Decoder(_SelectBody)


def selector_routes(
    chooser: WorkerChooser, selector: Selector, reservations: LeaseReservations, access: AdminAccess
) -> APIRouter:
    """Build `/select`, `/select_and_reserve`, `/prefill_complete`, `/output_block`, `/free` of `selector`."""
    router = LazyRouter(tags=["selector"], dependencies=[Depends(access)])
    sweeper = _ReservationSweeper(reservations)

    async def choose(raw: bytes) -> tuple[_SelectBody, WorkerChoice]:
        question: _SelectBody = decode_json(_question, raw)
        inner = PipelineRequest(
            id="", endpoint=question.endpoint, path="", journal=Journal(""), raw=raw, model=question.model
        )
        inner.stream = question.stream
        return question, await chooser.choose_worker(inner, question.workers, question.session)

    @router.post("/select")
    async def select(request: Request) -> dict[str, Any]:
        """Return the worker that the request should go to, and why; nothing is reserved."""
        _, choice = await choose(await request.body())
        return _choice_object(choice)

    @router.post("/select_and_reserve")
    async def select_and_reserve(request: Request) -> dict[str, Any]:
        """Return the worker, and reserve a place there until `/free`."""
        question, choice = await choose(await request.body())
        request_id = question.request_id or choose_request_id(None)
        try:
            reservations.check_capacity(request_id)
        except AlreadyReservedError:
            message = f"there is a reservation {request_id!r}: free it first"
            raise GatewayError(message, status=409, code="reservation_exists", param="request_id") from None
        except TooManyReservationsError:
            message = f"{len(reservations)} places are reserved, as many as may be: free some first"
            raise GatewayError(message, status=429, code="too_many_reservations") from None
        reservations.hold_lease(request_id, selector.reserve(choice))
        sweeper.wake()
        return {"request_id": request_id} | _choice_object(choice)

    async def sign(request: Request) -> tuple[_ReservationBody, Any]:
        body = await decode_body(request, _ReservationBody)
        lease = reservations.find_lease(body.request_id)
        if lease is None:
            message = f"there is no reservation {body.request_id!r}, or not any more"
            raise GatewayError(message, status=404, code="reservation_not_found", param="request_id")
        return body, lease

    @router.post("/prefill_complete")
    async def prefill_complete(request: Request) -> dict[str, Any]:
        """The first token has come."""
        body, lease = await sign(request)
        lease.mark_prefill_done()
        return {"request_id": body.request_id}

    @router.post("/output_block")
    async def output_block(request: Request) -> dict[str, Any]:
        """The answer has filled `blocks` more blocks."""
        body, lease = await sign(request)
        lease.add_output_blocks(body.blocks)
        return {"request_id": body.request_id}

    @router.post("/free")
    async def free(request: Request) -> dict[str, Any]:
        """The request has ended, however."""
        body, _ = await sign(request)
        reservations.release_reservation(body.request_id)
        return {"request_id": body.request_id}

    return router


class WorkerChooser:
    """Chooses the worker that a request would go to now; reserves nothing."""

    def __init__(self, registry: WorkerRegistry, selector: Selector, prompts: PromptReader) -> None:
        self.registry = registry
        self._selector = selector
        self._prompts = prompts
        self._overflow = OverflowRule(OverflowConfig())

    async def choose_worker(
        self, request: PipelineRequest, workers: Collection[str] | None = None, session: str | None = None
    ) -> WorkerChoice:
        """Return the worker for `request`, among `workers` (URLs or names) if given. Raises GatewayError.

        A hosted one only for a dry run: other data planes do not speak to providers.
        """
        model = None if request.model == ANY_MODEL else request.model
        candidates = self._find_candidates(request, model, workers)
        prompt = self._prompts.read_prompt(request, self._selector.policy_for_model(model), candidates)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
            candidates = self._find_candidates(request, model, workers)  # much may have happened meanwhile
        prompt.session = session or prompt.session
        return self._selector.select_worker(prompt, candidates)

    def _find_candidates(
        self, request: PipelineRequest, model: str | None, workers: Collection[str] | None
    ) -> tuple[Worker, ...]:
        registry = self.registry
        ready = tuple(worker for worker in registry.candidates(model) if worker.answers_alone)
        if not ready and model is not None and registry.definitely_lacks_model(model):
            raise ModelNotServedError(model)
        if workers is not None:
            wanted = {name.rstrip("/") for name in workers}
            known = {name for worker in registry for name in (worker.url, worker.name)}
            if unknown := wanted - known:
                raise BadRequest(f"no worker {min(unknown)!r}; /list_workers names them all", param="workers")
            ready = tuple(worker for worker in ready if worker.url in wanted or worker.name in wanted)
        able = tuple(worker for worker in ready if worker.hosted is None)
        if request.is_dry_run and registry.has_hosted():
            able = tuple(self._overflow.choose_tier(request, ready))
        if not able:
            raise (request.is_dry_run and self._overflow.explain_refusal(request, ready)) or NoWorkersError(
                "none of the workers asked for can answer now"
            )
        return tuple(worker for worker in able if not worker.breaker.tripped) or able


class _ReservationSweeper:
    """Ends expired reservations; sleeps while there are none."""

    def __init__(self, reservations: LeaseReservations) -> None:
        self._reservations = reservations
        self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._sweep()

    def _sweep(self) -> None:
        pause_s = self._reservations.sweep_expired()
        self._asleep = pause_s is None
        if pause_s is not None:
            asyncio.get_running_loop().call_later(pause_s, self._sweep)


def _choice_object(choice: WorkerChoice) -> dict[str, Any]:
    return {"url": choice.worker.url} | choice.explain()
