"""Expected latency of a fleet under a demand: times to first token and between tokens, in closed form.

A replica works in steps, each of which decodes a token for every running request and prefills a chunk (as
`routing/simulator/engine_model.py` has it). In balance, a step that does nothing else but `step_s` is
stretched by the shares of time that prefills and decodes take::

    itl = step_s / (1 - prefilling - decoding)

Prefills wait for one another like customers of `n` servers with general arrivals and services (Sakasegawa
1977, "An approximation formula Lq ≈ α·ρ^β/(1-ρ)"; Allen-Cunneen for the variabilities)::

    wait = (burstiness + variability) / 2 · ρ^(√(2(n+1)) - 1) / (n (1 - ρ)) · service
"""

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Literal

from radixway.cluster.planner.traffic_window import TrafficDemand
from radixway.core.config.scale import ObjectiveConfig, ProfileConfig

PlannedRole = Literal["any", "prefill", "decode"]
"""Role of a replica: prefill and decode, or one of the two."""

_OUT_OF_REACH = 1.1
"""Where no fleet holds the objective, fleets within this factor of the largest one's result are as good."""


@dataclass(frozen=True, slots=True)
class ExpectedLatency:
    """Latency that requests would meet, in seconds; infinite where the fleet can never keep up."""

    ttft_s: float
    """At the objective's percentile."""
    itl_s: float
    utilization: float
    """Share of a replica's time that its tokens take."""


@dataclass(frozen=True, slots=True)
class ReplicaNeed:
    """Replicas of a role that a demand needs."""

    replicas: int
    expected: ExpectedLatency
    reachable: bool
    """Whether they hold the objective; otherwise more would hardly help."""


class CapacityModel:
    """What one engine can do under one objective. Pure."""

    def __init__(self, profile: ProfileConfig, objective: ObjectiveConfig) -> None:
        self._profile = profile
        self._objective = objective

    def expect_latency(
        self, demand: TrafficDemand, replicas: int, role: PlannedRole = "any", slowness: float = 1.0
    ) -> ExpectedLatency:
        """Estimate latency of `replicas` under `demand`. `slowness`: measured TTFT over expected."""
        profile, each = self._profile, demand.requests_per_s / replicas
        token_s = profile.decode_s + profile.context_s * demand.context_tokens
        decoding = each * demand.output_tokens * token_s if role != "prefill" else 0.0
        service_s = self._prefill_s(demand.uncached_tokens, demand.pairs)
        prefilling = each * service_s if role != "decode" else 0.0
        utilization = prefilling + decoding
        itl_s = profile.step_s / (1 - utilization) + token_s if utilization < 1 else inf
        if role != "prefill" and not self._fits_limits(demand, each * demand.output_tokens * itl_s):
            itl_s = inf
        if role == "decode":
            return ExpectedLatency(itl_s, itl_s, utilization)
        ttft_s = self._ttft_s(demand, replicas, service_s, decoding) * slowness
        return ExpectedLatency(ttft_s, itl_s if role == "any" else 0.0, utilization)

    def find_need(
        self, demand: TrafficDemand, role: PlannedRole, low: int, high: int, slowness: float = 1.0
    ) -> ReplicaNeed:
        """The fewest replicas from `low` to `high` that meet the objective."""
        best = self.expect_latency(demand, high, role, slowness)
        ttft_s = self._objective.ttft_s if role != "decode" else inf
        itl_s = self._objective.itl_s if role != "prefill" else inf
        reachable = best.ttft_s <= ttft_s and best.itl_s <= itl_s
        ttft_s, itl_s = max(ttft_s, best.ttft_s * _OUT_OF_REACH), max(itl_s, best.itl_s * _OUT_OF_REACH)
        for replicas in range(low, high):
            expected = self.expect_latency(demand, replicas, role, slowness)
            if expected.ttft_s <= ttft_s and expected.itl_s <= itl_s and expected.utilization < 1:
                return ReplicaNeed(replicas, expected, reachable)
        return ReplicaNeed(high, best, reachable)

    def estimate_backlog_s(self, tokens: float, decoding: float, context_tokens: float) -> float:
        """Return the seconds that a replica needs to prefill `tokens` while decoding other requests."""
        profile = self._profile
        chunk_s = profile.step_s + decoding * (profile.decode_s + profile.context_s * context_tokens)
        return tokens * (profile.prefill_s + chunk_s / profile.step_tokens)

    def estimate_step_s(self, decoding: float, context_tokens: float) -> float:
        """Seconds between tokens with so many requests decoding and nothing to prefill."""
        profile = self._profile
        return profile.step_s + decoding * (profile.decode_s + profile.context_s * context_tokens)

    def max_concurrency(self, context_tokens: float) -> int:
        """Requests that a replica may decode at a time for the objective to be held; at least 1."""
        profile = self._profile
        token_s = profile.decode_s + profile.context_s * context_tokens
        left_s = self._objective.itl_s - profile.step_s
        by_time = left_s / token_s if token_s else inf
        by_memory = (
            inf if profile.kv_tokens is None or not context_tokens else profile.kv_tokens / context_tokens
        )
        return max(1, int(min(profile.max_running, by_time, by_memory)))

    def _prefill_s(self, tokens: float, pairs: float) -> float:
        profile = self._profile
        per_token = profile.prefill_s + profile.step_s / profile.step_tokens
        return tokens * per_token + pairs * profile.attention_s

    def _ttft_s(self, demand: TrafficDemand, replicas: int, service_s: float, decoding: float) -> float:
        if decoding >= 1:
            return inf
        service_s /= 1 - decoding
        long_pairs = demand.pairs * (demand.long_tokens / max(1.0, demand.uncached_tokens)) ** 2
        long_s = (self._prefill_s(demand.long_tokens, long_pairs) + self._profile.step_s) / (1 - decoding)
        busy = demand.requests_per_s * service_s / replicas
        if busy >= 1:
            return inf
        waits: float = busy ** (sqrt(2 * (replicas + 1)) - 1)
        wait_s = (demand.burstiness + demand.variability) / 2 * waits / (replicas * (1 - busy)) * service_s
        late = 1 - self._objective.ttft_percentile
        long_wait_s = wait_s / waits * log(waits / late) if waits > late else 0.0
        return max(long_s + wait_s, service_s + long_wait_s)

    def _fits_limits(self, demand: TrafficDemand, running: float) -> bool:
        profile = self._profile
        kv_tokens = inf if profile.kv_tokens is None else profile.kv_tokens
        return running <= profile.max_running and running * demand.context_tokens <= kv_tokens
