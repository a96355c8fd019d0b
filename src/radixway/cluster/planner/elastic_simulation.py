"""A fleet that grows and shrinks under a trace: replicas take time to start, and drain before they go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.core.config import AnyPolicy
from radixway.routing import Worker, WorkerChoice
from radixway.routing.simulator.engine_model import SimulatedRequest
from radixway.routing.simulator.simulation import SimulationSettings, TraceSimulation
from radixway.routing.simulator.trace import RequestTrace


class ReplicaScaler(Protocol):
    """Decides every `every_s` seconds how many replicas there should be, from the `traffic` since."""

    every_s: float
    traffic: TrafficWindow

    def decide_replicas(self, now: float, ready: Sequence[Worker], starting: int) -> int:
        """Return the wanted replicas at `now`, given the `ready` ones and the number `starting`."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A served request, in seconds since the trace began."""

    arrived: float
    ttft_s: float
    itl_s: float | None
    """Mean between its tokens; None for an answer of one."""


@dataclass(slots=True)
class ElasticOutcome:
    """Results of an elastic simulation."""

    served: list[ServedRequest] = field(default_factory=list)
    decisions: list[tuple[float, int]] = field(default_factory=list)
    replica_s: float = 0.0
    """Replica seconds, from request to removal, until the last request arrived."""
    max_replicas: int = 0
    """Replicas at a time, starting and draining ones counted."""


@dataclass(slots=True, eq=False)
class _ElasticReplica:
    requested_at: float
    ready_at: float
    worker: Worker | None = None


class ElasticSimulation(TraceSimulation):
    """A trace against a fleet that a `ReplicaScaler` sizes, from `setting.workers` ready replicas on."""

    def __init__(
        self,
        trace: RequestTrace,
        policy: AnyPolicy,
        setting: SimulationSettings,
        scaler: ReplicaScaler,
        startup_s: float,
    ) -> None:
        """Raises ValueError for several gateways: each would scale the fleet."""
        if setting.gateways > 1:
            raise ValueError("a fleet that grows is simulated with one gateway")
        super().__init__(trace, policy, setting)
        self._scaler = scaler
        self._startup_s = startup_s
        self._replicas = [_ElasticReplica(0.0, 0.0, worker) for worker in self._gateways[0].workers]
        self._draining: list[_ElasticReplica] = []
        self._ready: list[Worker] = list(self._gateways[0].workers)
        self._gateways[0].candidates = self._ready
        self._next = scaler.every_s
        self._last = trace.requests[-1].at / setting.speedup
        self._growth = ElasticOutcome(max_replicas=setting.workers)

    def run_elastic(self, progress: Callable[[int], None] = lambda done: None) -> ElasticOutcome:
        """Replay the whole trace (see `run`); what became of requests and fleet."""
        self.run_trace(progress)
        for replica in (*self._replicas, *self._draining):
            self._count_replica_seconds(replica, self._last)
        return self._growth

    def _on_sent(self, job: SimulatedRequest, choice: WorkerChoice) -> None:
        self._scaler.traffic.on_arrival()
        self._scaler.traffic.on_placed(choice.request.tokens, choice.request.tokens - choice.cached_tokens)

    def _on_token(self, job: SimulatedRequest) -> None:
        if not job.finished:
            self._scaler.traffic.on_first_token(self._now - job.requested)
            return
        decode_s = job.finished - job.first_token
        self._scaler.traffic.on_finished(job.output_tokens, decode_s)
        itl_s = decode_s / (job.output_tokens - 1) if job.output_tokens > 1 else None
        self._growth.served.append(ServedRequest(job.requested, job.first_token - job.requested, itl_s))

    def _next_event_at(self) -> float:
        return min(super()._next_event_at(), self._next_change_at())

    def _run_event(self) -> None:
        """Run what happens now, and after it the scaler's decisions."""
        if super()._next_event_at() <= self._now:
            super()._run_event()
            return
        now = self._now
        self._remove_drained(now)
        self._admit_started(now)
        if now >= self._next:
            self._next += self._scaler.every_s
            self._rescale(now)
        self._serve_queues()

    def _next_change_at(self) -> float:
        at = min(self._next, self._next_ready())
        return at if at <= self._last else inf

    def _next_ready(self) -> float:
        return min((each.ready_at for each in self._replicas if each.worker is None), default=inf)

    def _admit_started(self, now: float) -> None:
        for replica in self._replicas:
            if replica.worker is None and replica.ready_at <= now:
                gateway = self._gateways[0]
                replica.worker = gateway.add_worker(self._setting.kv_tokens)
                gateway.selector.index.set_followed(replica.worker.slot, self._setting.events)
                self._add_engine()
                self._ready.append(replica.worker)

    def _remove_drained(self, now: float) -> None:
        for replica in self._draining[:]:
            assert replica.worker is not None
            if not replica.worker.load.requests:
                self._draining.remove(replica)
                self._count_replica_seconds(replica, now)

    def _rescale(self, now: float) -> None:
        starting = len(self._replicas) - len(self._ready)
        wanted = max(1, self._scaler.decide_replicas(now, self._ready, starting))
        while len(self._replicas) < wanted:
            self._replicas.append(_ElasticReplica(now, now + self._startup_s))
        while len(self._replicas) > wanted:  # the newest first, as a StatefulSet does
            self._remove_replica(self._replicas.pop(), now)
        self._growth.decisions.append((now, wanted))
        self._growth.max_replicas = max(self._growth.max_replicas, len(self._replicas) + len(self._draining))

    def _remove_replica(self, replica: _ElasticReplica, now: float) -> None:
        if replica.worker is None:
            self._count_replica_seconds(replica, now)
            return
        self._ready.remove(replica.worker)
        self._draining.append(replica)

    def _count_replica_seconds(self, replica: _ElasticReplica, until: float) -> None:
        self._growth.replica_s += max(0.0, min(until, self._last) - replica.requested_at)
