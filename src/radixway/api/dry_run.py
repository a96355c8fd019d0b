"""`POST /rehearse`: how a chat completion would be handled, step by step, without calling a worker.

The request goes through the same middlewares as real ones, up to where a worker would get it; its
journal is the answer. For the operator alone: the answer includes the complete prompt.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from fastapi import APIRouter, Depends
from fastapi import Request as HttpRequest
from pydantic import BaseModel

from radixway.api.admin_access import AdminAccess
from radixway.api.request_headers import apply_gateway_headers, read_headers
from radixway.api.selector import WorkerChooser
from radixway.core.http import LazyRouter
from radixway.core.pipeline import CHAT_COMPLETIONS, GatewayError, Middleware, Pipeline, Reply, Request
from radixway.core.telemetry import Journal
from radixway.routing.transports.overflow import describe_hosted


class DryRunRefusal(BaseModel):
    """The refusal of a request, as its client would read it."""

    status: int
    code: str | None
    message: str
    param: str | None


class DryRunReport(BaseModel):
    """The outcome of a dry run."""

    outcome: Literal["worker", "answered", "refused"]
    """A worker would get it; the cache or the guard would answer; or it would be refused."""
    model: str | None
    """The model that the worker would be asked for."""
    worker: str | None
    """The worker, `semantic-cache`, or `guard`."""
    steps: list[dict[str, Any]]
    """Journal steps as in `/explain/{request_id}`: signals, decision, cache, tools, candidates and their
    scores."""
    sent: dict[str, Any] | None
    """The body that the worker would get."""
    answer: dict[str, Any] | None
    """The answer of cache or guard."""
    refusal: DryRunRefusal | None


_OPENAPI_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A body of /v1/chat/completions.",
        "content": {"application/json": {"schema": {"type": "object", "required": ["messages"]}}},
    }
}


class _WorkerChosen(Exception):
    def __init__(self, model: str | None, worker: str, sent: bytes) -> None:
        self.model = model
        self.worker = worker
        self.sent = sent


def dry_run_routes(
    middlewares: Iterable[Middleware], chooser: WorkerChooser, access: AdminAccess
) -> APIRouter:
    """Build `/rehearse`; `middlewares`: those that read a request and decide about it."""
    router = LazyRouter(tags=["gateway"], dependencies=[Depends(access)])

    async def stop_at_worker(request: Request) -> Reply:
        choice = await chooser.choose_worker(request)
        request.journal.add("select", choice)
        models = choice.worker.models
        model = request.model if request.model not in (None, "auto") else next(iter(models), None)
        if (hosted := choice.worker.hosted) is not None:
            step = describe_hosted(request, chooser.registry, hosted, model or "")
            request.journal.add("hosted", **step)
        raise _WorkerChosen(model, choice.worker.name, request.raw)

    dry_run_pipeline = Pipeline(list(middlewares), stop_at_worker)

    @router.post("/rehearse", response_model=DryRunReport, openapi_extra=_OPENAPI_BODY)
    async def rehearse(http: HttpRequest) -> DryRunReport:
        """Every step of the pipeline for a body of `/v1/chat/completions`, as a real one's journal has them.

        No worker is asked and nothing is reserved, kept or entered in the audit log.
        """
        raw = await http.body()
        request_id, headers, own = read_headers(http.scope["headers"])
        parsed = CHAT_COMPLETIONS.read(raw)
        request = Request(
            id=request_id,
            endpoint=CHAT_COMPLETIONS,
            path=CHAT_COMPLETIONS.path,
            journal=Journal(request_id),
            raw=raw,
            model=parsed.model,
            headers=headers,
            is_dry_run=True,
        )
        if own:
            apply_gateway_headers(request, own)
        return await _run_pipeline(dry_run_pipeline, request)

    return router


async def _run_pipeline(pipeline: Pipeline, request: Request) -> DryRunReport:
    report = DryRunReport(
        outcome="worker", model=None, worker=None, steps=[], sent=None, answer=None, refusal=None
    )
    try:
        reply = await pipeline(request)
        report.outcome, report.worker = "answered", reply.worker
        report.model = request.model
        report.answer = _decode_object(reply.body)
    except _WorkerChosen as chosen:
        report.model, report.worker, report.sent = chosen.model, chosen.worker, _decode_object(chosen.sent)
    except GatewayError as error:
        report.outcome = "refused"
        report.refusal = DryRunRefusal(
            status=error.status, code=error.code, message=error.client_message, param=error.param
        )
    finally:
        for chunks in request.open_streams:
            await chunks.aclose()
    report.steps = request.journal.explain()["steps"]
    return report


def _decode_object(raw: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
