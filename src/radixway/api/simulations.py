"""`/simulate`: comparisons of policies on an uploaded, generated or recent trace, each a job in a process."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from msgspec import Meta
from pydantic import BaseModel

from radixway.api.admin_access import AdminAccess
from radixway.api.openapi import query_parameters
from radixway.core.config import AnyPolicy, CustomPolicyConfig, SimulationsConfig
from radixway.core.http import BadBodyError, LazyRouter, decode_query
from radixway.core.pipeline import BadRequest, GatewayError, TokenUsage
from radixway.core.telemetry import Journal, JournalStore
from radixway.routing import PairChoice, RoutingRequest, WorkerChoice
from radixway.routing.simulator import (
    SAMPLES,
    SimulationJob,
    SimulationJobQueue,
    SimulationQueueFullError,
    SimulationTask,
    TraceLine,
    make_sample_trace,
    parse_policies,
    trace_path,
)
from radixway.routing.simulator.job_queue import TRACE

RECENT = "recent"
"""The sample that is made of the latest requests."""
_MAX_RECENT = 5000
_POLICIES = "expected_time,kv_aware,prefix_affinity,least_loaded,round_robin"
_pack = Struct("<Q").pack


def build_recent_trace(journals: Iterable[Journal]) -> bytes:
    """Build a trace of those `journals` whose prompt was read and that were answered; empty without any."""
    known = [(journal, *found) for journal in journals if (found := _prompt_and_length(journal)) is not None]
    sizes = Counter(prompt.block_tokens for _, prompt, _ in known)
    if not sizes:
        return b""
    size = sizes.most_common(1)[0][0]
    began = min(journal.began_at for journal, prompt, _ in known if prompt.block_tokens == size)
    names, sessions = _IdNumbers(), _IdNumbers()
    lines = [
        TraceLine(
            timestamp=round((journal.began_at - began) * 1e3, 3),
            input_length=prompt.tokens,
            output_length=answer_tokens,
            hash_ids=[names.number_of(_pack(block & (2**64 - 1))) for block in prompt.all_blocks()],
            block_size=size,
            session=None if prompt.session is None else sessions.number_of(prompt.session.encode()),
        )
        for journal, prompt, answer_tokens in known
        if prompt.block_tokens == size
    ]
    lines.sort(key=lambda line: line.timestamp)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


class _IdNumbers:
    """Numbers things in the order in which they come; what they are, only keyed digests remember."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._numbers: dict[bytes, int] = {}

    def number_of(self, thing: bytes) -> int:
        digest = blake2b(thing, digest_size=16, key=self._key).digest()
        return self._numbers.setdefault(digest, len(self._numbers))


def _prompt_and_length(journal: Journal) -> tuple[RoutingRequest, int] | None:
    prompt: RoutingRequest | None = None
    answered = 0
    for _, _, detail in journal.entries:
        if isinstance(detail, WorkerChoice):
            prompt = detail.request
        elif isinstance(detail, PairChoice):
            prompt = detail.answers.request
        elif isinstance(detail, TokenUsage):
            answered += detail.completion_tokens
    if prompt is None or not prompt.all_blocks() or not answered:
        return None
    return prompt, answered


class SimulationStatus(BaseModel):
    """A simulation, as far as it has come."""

    id: str
    name: str
    asked_at: float
    """Seconds since the epoch."""
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    policies: list[str]
    setting: dict[str, Any]
    sent: int
    """Requests that have been sent, of all policies together."""
    total: int | None
    """Requests to be sent; null until the trace is read."""
    took_s: float | None
    error: str | None
    result: dict[str, Any] | None
    """`trace` and, by policy, `figures` and `curves`; null in lists, and until it ends."""


class SimulationList(BaseModel):
    """All remembered simulations, and the choices for new ones."""

    simulations: list[SimulationStatus]
    """Newest first."""
    samples: list[str]
    policies: list[str]
    limits: dict[str, float]


def describe_job(job: SimulationJob, *, with_result: bool = True) -> SimulationStatus:
    """Describe `job`; `with_result`: with its result."""
    task = job.task
    return SimulationStatus(
        id=job.id,
        name=job.name,
        asked_at=job.asked_at,
        state=job.state,
        policies=[name.strip() for name in task.policies.split(",")],
        setting={
            "workers": task.workers,
            "kv_tokens": task.kv_tokens,
            "speedup": task.speedup,
            "events": task.events,
            "event_delay_ms": task.event_delay_s * 1e3,
            "engine": task.engine,
            "limit": task.limit,
        },
        sent=job.sent,
        total=job.total,
        took_s=job.took_s,
        error=job.error,
        result=job.result if with_result else None,
    )


class _SimulateQuery(msgspec.Struct, forbid_unknown_fields=True):
    policies: Annotated[str, Meta(max_length=2000, description="as `--policy` of `radixway simulate`")] = (
        _POLICIES
    )
    workers: Annotated[int, Meta(ge=1, description="engines")] = 4
    kv_tokens: Annotated[int, Meta(ge=1, le=10**12, description="that each one's cache holds")] = 200_000
    speedup: Annotated[float, Meta(gt=0, le=1e6, description="over the trace's own pace")] = 1.0
    events: Annotated[bool, Meta(description="workers publish KV events")] = True
    event_delay_ms: Annotated[float, Meta(ge=0, le=1e6, description="from a cache to the selector")] = 10.0
    engine: Annotated[
        str, Meta(max_length=500, description="how fast engines are, `prefill_s=0.0001,step_s=0.01`")
    ] = ""
    block_size: Annotated[int, Meta(ge=1, le=2**20, description="where the trace does not say")] = 512
    limit: Annotated[int, Meta(ge=1, description="only the first requests")] | None = None
    sample: (
        Annotated[
            str,
            Meta(
                max_length=40,
                description="in place of a body: a trace that is made up, or of the latest requests",
                extra_json_schema={"enum": [RECENT, *SAMPLES]},
            ),
        ]
        | None
    ) = None
    name: Annotated[str, Meta(max_length=120, description="what to call it")] = ""


_OPENAPI_EXTRA = query_parameters(_SimulateQuery) | {
    "requestBody": {
        "description": "A trace: a JSON object a line, gzipped or not (docs/reference/simulator.md#traces).",
        "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def simulation_routes(
    section: SimulationsConfig, jobs: SimulationJobQueue, journals: JournalStore, access: AdminAccess
) -> APIRouter:
    """`journals`: of the latest requests, which can be simulated again."""
    router = LazyRouter(tags=["simulations"], dependencies=[Depends(access)])

    @router.get("/simulate")
    async def simulations() -> SimulationList:
        """Simulations that are remembered, newest first and without results; and what there is to choose."""
        return SimulationList(
            simulations=[describe_job(job, with_result=False) for job in reversed([*jobs])],
            samples=[RECENT, *SAMPLES],
            policies=[
                policy.model_fields["name"].default
                for policy in get_args(AnyPolicy)
                if policy is not CustomPolicyConfig
            ],
            limits={
                "trace_bytes": section.most_trace_bytes,
                "requests": section.most_requests,
                "policies": section.most_policies,
                "workers": section.most_workers,
                "time_s": section.time_s,
            },
        )

    @router.post("/simulate", status_code=202, response_model=SimulationStatus, openapi_extra=_OPENAPI_EXTRA)
    async def simulate(request: Request) -> SimulationStatus:
        """Replay a trace under several policies; the answer comes at once, and the result when it is done."""
        if not section.enabled:
            message = "nothing is simulated here: simulations.enabled is false"
            raise GatewayError(message, status=404, code="simulations_off")
        query = decode_query(dict(request.query_params), _SimulateQuery)
        task = _build_task(query, section)
        try:
            with jobs.prepare_job(query.name or query.sample or TRACE, task) as job:
                await _write_trace(job, request, query.sample)
        except SimulationQueueFullError as full:
            raise GatewayError(str(full), status=429, code="simulations_full", retry_after_s=10) from None
        return describe_job(job)

    async def _write_trace(job: SimulationJob, request: Request, named: str | None) -> None:
        path = trace_path(job)
        if named is not None:
            if named not in (RECENT, *SAMPLES):
                raise BadRequest(f"sample: {', '.join((RECENT, *SAMPLES))}, not {named!r}", param="sample")
            if named == RECENT:
                trace = await asyncio.to_thread(build_recent_trace, journals.latest_journals(_MAX_RECENT))
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
                    limit = section.most_trace_bytes
                    raise BadBodyError(
                        f"the trace has more than {limit} bytes", status=413, code="body_too_large"
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
            message = f"there is no simulation {job_id[:80]!r}, or not any more"
            raise GatewayError(message, status=404, code="simulation_not_found", param="id")
        return job

    return router


def _build_task(query: _SimulateQuery, section: SimulationsConfig) -> SimulationTask:
    if query.workers > section.most_workers:
        raise BadRequest(f"workers: at most {section.most_workers}, not {query.workers}", param="workers")
    try:
        policies = parse_policies(query.policies)
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
        policies=query.policies,
        workers=query.workers,
        kv_tokens=query.kv_tokens,
        speedup=query.speedup,
        events=query.events,
        event_delay_s=query.event_delay_ms / 1e3,
        engine=query.engine,
        block_tokens=query.block_size,
        limit=query.limit,
        most_requests=section.most_requests,
        memory_bytes=section.memory_bytes,
    )
    try:
        task.to_settings()
    except ValueError as error:
        raise BadRequest(f"engine: {error}", param="engine") from None
    return task
