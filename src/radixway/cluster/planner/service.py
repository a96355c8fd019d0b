"""The planner of a running gateway: plans from the registry every few seconds and serves `/plan`."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from fastapi import APIRouter

from radixway.cluster.planner.capacity_model import PlannedRole
from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.model_planner import ModelPlan, ModelPlanner, RolePlan, RoleReplicas
from radixway.cluster.planner.traffic_window import OTHER, TrafficObserver, TrafficWindow
from radixway.core.component import Component
from radixway.core.config import PlannerConfig
from radixway.core.http import LazyRouter
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.pipeline import GatewayError, Next
from radixway.core.telemetry import MetricsRegistry
from radixway.routing import Worker, WorkerLoad, WorkerRegistry, WorkerState

log = logging.getLogger(__name__)


class PlannerDisabledError(GatewayError):
    """`scale.planner` is not configured."""

    status = 404
    code = "planner_off"


class PlannerService(Component):
    """Plans each model that workers serve. Belongs to one event loop."""

    name = "planner"

    def __init__(
        self,
        config: PlannerConfig,
        registry: WorkerRegistry,
        metrics: MetricsRegistry,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: of the workers' ledger. Raises ConfigError if the forecast's package is missing."""
        self._config = config
        self._registry = registry
        self._clock = clock
        self._forecast = find_forecast(config.forecast)
        self._watch: TrafficObserver | None = None
        self._looking: asyncio.Task[None]
        self._planners: dict[str, ModelPlanner] = {}
        self.gateways: Callable[[], Collection[object]] = tuple
        """The other gateways whose messages arrive."""
        self._known_gateways: Collection[object] = ()
        self._sent: dict[str, dict[Worker, tuple[int, int]]] = {}
        """Requests sent to a model's workers by this gateway and by peers, at the last reading."""
        self._others: dict[str, float] = {}
        """Peers' requests to a model's workers per request of ours."""
        self.plans: dict[str, ModelPlan] = {}

        def gauge(name: str, text: str, value: Callable[[RolePlan], float]) -> None:
            metrics.gauges_by(name, text, ("role", "model"), lambda: self._role_values(value), "max")

        gauge("radixway_planner_replicas", "Replicas that the planner proposes", lambda plan: plan.replicas)
        gauge("radixway_planner_ready_replicas", "Replicas that can answer", lambda plan: plan.ready)
        gauge(
            "radixway_planner_pressure",
            "Queue and decoding as a share of what the objective allows",
            lambda plan: plan.pressure,
        )

    def observe_dispatch(self, dispatch: Next) -> Next:
        """`dispatch`, with what passes through it counted."""
        self._watch = TrafficObserver(dispatch, self._registry)
        return self._watch

    def explain(self) -> dict[str, Any]:
        """Return, for `/plan`, what is proposed for every model, and why."""
        return {
            "interval_s": self._config.interval_s,
            "load_interval_s": self._config.load_interval_s,
            "forecast": self._config.forecast,
            "models": [plan.explain() for plan in self.plans.values()],
        }

    async def start(self) -> None:
        """Look every `load_interval_s`."""
        self._looking = asyncio.create_task(self._plan_loop())

    async def stop(self) -> None:
        """Look no more."""
        await cancel_tasks([self._looking])

    async def _plan_loop(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(self._config.load_interval_s)
            now = loop.time()
            try:
                await self.update_plans(now, now - before)
            except Exception:
                log.exception("planning failed unexpectedly; the last plans stay in force")
            before = now

    async def update_plans(self, now: float, span_s: float) -> None:
        """Update every model's plan, `span_s` after the last time. Forecasts run in a thread."""
        models: dict[str, list[Worker]] = {}
        for worker in self._registry:
            for model in dict.fromkeys(worker.models or (OTHER,)):
                models.setdefault(model, []).append(worker)
        for gone in self._planners.keys() - models.keys():
            del self._planners[gone]
            self.plans.pop(gone, None)
            self._sent.pop(gone, None)
            self._others.pop(gone, None)
        before, self._known_gateways = self._known_gateways, self.gateways()
        for model, workers in models.items():
            fleets = self._replicas_by_role(model, workers)
            planner = self._planner(model, split="any" not in fleets)
            traffic = self._take_traffic(model, workers, span_s, steady=before == self._known_gateways)
            self.plans[model] = await asyncio.to_thread(planner.update_plan, now, traffic, fleets)

    def _planner(self, model: str, *, split: bool) -> ModelPlanner:
        planner = self._planners.get(model)
        if planner is None or planner.split is not split:
            planner = self._planners[model] = ModelPlanner(model, self._config, self._forecast, split=split)
        return planner

    def _replicas_by_role(self, model: str, workers: Sequence[Worker]) -> Mapping[PlannedRole, RoleReplicas]:
        """Return replica counts by role. Where some workers only prefill, all others decode."""
        by_role: dict[PlannedRole, list[Worker]] = {}
        for worker in workers:
            by_role.setdefault(worker.role, []).append(worker)
        if "prefill" in by_role:
            by_role["decode"] = by_role.pop("any", []) + by_role.get("decode", [])
        else:
            by_role = {"any": [worker for each in by_role.values() for worker in each]}
        waiting = self._count_waiting(model, workers)
        now = self._clock()
        return {
            role: count_replicas(each, now, waiting if role != "decode" else 0)
            for role, each in by_role.items()
        }

    def _count_waiting(self, model: str, workers: Sequence[Worker]) -> int:
        inside = 0 if self._watch is None else self._watch.count_inflight(model)
        return max(0, inside - sum(worker.load.prefilling for worker in workers))

    def _take_traffic(
        self, model: str, workers: Sequence[Worker], span_s: float, *, steady: bool
    ) -> TrafficWindow:
        """Return this gateway's traffic, its arrivals raised by what others sent to the same workers.

        Not `steady`: others have come or gone. A new one reports all it ever
        sent, and so does a new worker: neither is recent traffic, so the last ratio is used.
        """
        traffic = TrafficWindow(span_s) if self._watch is None else self._watch.take_window(model, span_s)
        now = {worker: (worker.load.total, worker.load.elsewhere.total) for worker in workers}
        before, self._sent[model] = self._sent.get(model, {}), now
        both = now.keys() & before.keys()
        ours, theirs = (sum(now[worker][at] - before[worker][at] for worker in both) for at in (0, 1))
        if steady and ours > 0:
            self._others[model] = max(0, theirs) / ours
        traffic.requests += round(traffic.requests * self._others.get(model, 0.0))
        return traffic

    def _role_values(self, value: Callable[[RolePlan], float]) -> Iterable[tuple[tuple[str, str], float]]:
        return [
            ((role, model), value(plan))
            for model, model_plan in self.plans.items()
            for role, plan in model_plan.roles.items()
        ]


def count_replicas(workers: Iterable[Worker], now: float, waiting: int = 0) -> RoleReplicas:
    """Replicas of one role as the registry knows them. `now`: by the clock of their ledger."""
    workers = list(workers)
    ready = [worker for worker in workers if worker.state is WorkerState.READY]
    loads = [worker.load for worker in ready]
    return RoleReplicas(
        ready=len(ready),
        starting=sum(worker.state is WorkerState.JOINING for worker in workers),
        prefill_tokens=sum(_tokens_to_prefill(load, now) for load in loads),
        decoding=sum(_count_decoding(load, now) for load in loads),
        waiting=waiting,
    )


def _tokens_to_prefill(load: WorkerLoad, now: float) -> int:
    """Return the tokens to prefill. Whole replies have no first token, so the ledger's estimate is the limit
    then."""
    tokens = load.all_prefill_tokens
    if not _has_silent_prefills(load):
        return tokens
    return min(tokens, ceil(load.queue_s(now) / load.rate.seconds_per_token))


def _count_decoding(load: WorkerLoad, now: float) -> int:
    if _has_silent_prefills(load):
        return load.decoding(now)
    return load.all_requests - load.prefilling - load.elsewhere.prefilling


def _has_silent_prefills(load: WorkerLoad) -> bool:
    return load.silent + load.elsewhere.silent > 0


def build_plan_routes(planner: PlannerService | None) -> APIRouter:
    """`GET /plan`."""
    router = LazyRouter(tags=["gateway"])

    @router.get("/plan")
    async def plan() -> dict[str, Any]:
        """Return the wanted replicas of each model, by role, and why."""
        if planner is None:
            raise PlannerDisabledError("nothing is planned: configure scale.planner")
        return planner.explain()

    return router
