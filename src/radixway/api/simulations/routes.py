"""`/simulate`: ask for a simulation, follow it, read what came of it, end it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, get_args

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.simulations.recent_trace import build_recent_trace
from radixway.api.simulations.shapes import SimulationList, SimulationStatus, describe_job
from radixway.core.config import AnyPolicy, CustomPolicyConfig, SimulationsConfig
from radixway.core.http import BadBodyError, decode_query
from radixway.core.pipeline import BadRequest, GatewayError
from radixway.core.telemetry import JournalStore
from radixway.routing.simulator import (
    SAMPLES,
    SimulationJob,
    SimulationJobQueue,
    SimulationQueueFullError,
    SimulationTask,
    make_sample_trace,
    parse_policies,
    trace_path,
)
from radixway.routing.simulator.job_queue import TRACE

RECENT = "recent"
"""The sample that is made of the latest requests."""
_MOST_RECENT = 5000
"""Of the latest requests, those that are simulated again."""

_POLICIES = "expected_time,kv_aware,prefix_affinity,least_loaded,round_robin"


class SimulationsOffError(GatewayError):
    """Nothing is simulated here."""

    status = 404
    code = "simulations_off"


class SimulationNotFoundError(GatewayError):
    """There is none of that id, or not any more."""

    status = 404
    code = "simulation_not_found"
    param = "id"


class SimulationsBusyError(GatewayError):
    """Too many wait already."""

    status = 429
    quotes = False
    code = "simulations_full"
    retry_after_s = 10


class _SimulateQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query."""

    policies: Annotated[str, Meta(max_length=2000)] = _POLICIES
    workers: Annotated[int, Meta(ge=1)] = 4
    kv_tokens: Annotated[int, Meta(ge=1, le=10**12)] = 200_000
    speedup: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    events: bool = True
    event_delay_ms: Annotated[float, Meta(ge=0, le=1e6)] = 10.0
    engine: Annotated[str, Meta(max_length=500)] = ""
    block_size: Annotated[int, Meta(ge=1, le=2**20)] = 512
    limit: Annotated[int, Meta(ge=1)] | None = None
    sample: Annotated[str, Meta(max_length=40)] | None = None
    name: Annotated[str, Meta(max_length=120)] = ""


_TOLD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("policies", {"type": "string", "default": _POLICIES}, "as `--policy` of `radixway simulate`"),
    ("workers", {"type": "integer", "minimum": 1, "default": 4}, "engines"),
    ("kv_tokens", {"type": "integer", "minimum": 1, "default": 200_000}, "that each one's cache holds"),
    ("speedup", {"type": "number", "exclusiveMinimum": 0, "default": 1}, "over the trace's own pace"),
    ("events", {"type": "boolean", "default": True}, "workers publish KV events"),
    ("event_delay_ms", {"type": "number", "minimum": 0, "default": 10}, "from a cache to the selector"),
    ("engine", {"type": "string"}, "how fast engines are, `prefill_s=0.0001,step_s=0.01`"),
    ("block_size", {"type": "integer", "minimum": 1, "default": 512}, "where the trace does not say"),
    ("limit", {"type": "integer", "minimum": 1}, "only the first requests"),
    (
        "sample",
        {"type": "string", "enum": [RECENT, *SAMPLES]},
        "in place of a body: a trace that is made up, or of the latest requests",
    ),
    ("name", {"type": "string", "maxLength": 120}, "what to call it"),
)
_ASKED: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
        for name, schema, text in _TOLD
    ],
    "requestBody": {
        "description": "A trace: a JSON object a line, gzipped or not (docs/routing.md#traces).",
        "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
    },
}


def simulation_routes(
    section: SimulationsConfig,
    jobs: SimulationJobQueue,
    journals: JournalStore,
    access: AdminAccess,
) -> APIRouter:
    """`journals`: of the latest requests, which can be simulated again."""
    router = APIRouter(tags=["simulations"], dependencies=[Depends(access)])

    @router.get("/simulate")
    async def simulations() -> SimulationList:
        """Simulations that are remembered, newest first and without results; and what there is to choose."""
        return SimulationList(
            simulations=[describe_job(job, whole=False) for job in reversed([*jobs])],
            samples=[RECENT, *SAMPLES],
            policies=[
                each.model_fields["name"].default
                for each in get_args(AnyPolicy)
                if each is not CustomPolicyConfig
            ],
            limits={
                "trace_bytes": section.most_trace_bytes,
                "requests": section.most_requests,
                "policies": section.most_policies,
                "workers": section.most_workers,
                "time_s": section.time_s,
            },
        )

    @router.post("/simulate", status_code=202, response_model=SimulationStatus, openapi_extra=_ASKED)
    async def simulate(request: Request) -> SimulationStatus:
        """Replay a trace under several policies; the answer comes at once, and the result when it is done."""
        if not section.enabled:
            raise SimulationsOffError("nothing is simulated here: simulations.enabled is false")
        asked = decode_query(dict(request.query_params), _SimulateQuery)
        task = _build_task(asked, section)
        try:
            with jobs.prepare_job(asked.name or asked.sample or TRACE, task) as job:
                await _write_trace(job, request, asked.sample)
        except SimulationQueueFullError as full:
            raise SimulationsBusyError(str(full)) from None
        return describe_job(job)

    async def _write_trace(job: SimulationJob, request: Request, named: str | None) -> None:
        path = trace_path(job)
        if named is not None:
            if named not in (RECENT, *SAMPLES):
                raise BadRequest(f"sample: {', '.join((RECENT, *SAMPLES))}, not {named!r}", param="sample")
            if named == RECENT:
                trace = await asyncio.to_thread(build_recent_trace, journals.latest_journals(_MOST_RECENT))
            else:
                trace = await asyncio.to_thread(make_sample_trace, named)
            if not trace:
                raise BadRequest(
                    "none of the latest requests can be simulated: where there is one worker to choose "
                    "from, or a policy that looks at no blocks, prompts are not read",
                    param="sample",
                )
            await asyncio.to_thread(path.write_bytes, trace)
            return
        size = 0
        with path.open("wb") as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > section.most_trace_bytes:
                    most = section.most_trace_bytes
                    raise BadBodyError(
                        f"the trace has more than the {most} bytes allowed", status=413, code="body_too_large"
                    )
                await asyncio.to_thread(file.write, chunk)
        if not size:
            raise BadRequest("there is no trace: send one as the body, or name a sample", param="sample")

    @router.get("/simulate/{id}")
    async def simulation(id: str) -> SimulationStatus:
        """Return the progress of `id`, and its result once it is done."""
        return describe_job(find(id))

    @router.delete("/simulate/{id}", status_code=204, response_class=Response)
    async def end(id: str) -> Response:
        """End the simulation `id`, or forget it where it is over."""
        job = find(id)
        if job.is_over:
            jobs.remove_job(job)
        else:
            await jobs.cancel_job(job)
        return Response(status_code=204)

    def find(job_id: str) -> SimulationJob:
        job = jobs.find_job(job_id)
        if job is None:
            raise SimulationNotFoundError(f"there is no simulation {job_id[:80]!r}, or not any more")
        return job

    return router


def _build_task(asked: _SimulateQuery, section: SimulationsConfig) -> SimulationTask:
    """Raises BadRequest."""
    if asked.workers > section.most_workers:
        raise BadRequest(f"workers: at most {section.most_workers}, not {asked.workers}", param="workers")
    try:
        policies = parse_policies(asked.policies)
    except ValueError as error:
        raise BadRequest(f"policies: {error}", param="policies") from None
    if any(isinstance(policy, CustomPolicyConfig) for policy in policies.values()):
        raise BadRequest(
            "policies: those that ship with Radixway; for one of your own there is `radixway simulate`",
            param="policies",
        )
    if len(policies) > section.most_policies:
        raise BadRequest(f"policies: at most {section.most_policies}", param="policies")
    task = SimulationTask(
        trace=TRACE,
        policies=asked.policies,
        workers=asked.workers,
        kv_tokens=asked.kv_tokens,
        speedup=asked.speedup,
        events=asked.events,
        event_delay_s=asked.event_delay_ms / 1e3,
        engine=asked.engine,
        block_tokens=asked.block_size,
        limit=asked.limit,
        most_requests=section.most_requests,
        memory_bytes=section.memory_bytes,
    )
    try:
        task.to_settings()
    except ValueError as error:
        raise BadRequest(f"engine: {error}", param="engine") from None
    return task
