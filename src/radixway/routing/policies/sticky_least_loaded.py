"""Sticky least loaded: a session stays where its prefix is, until another worker has much less to do.

A new session goes where the fewest requests are in hand, of equals where the fewest sessions are: agents
think between their turns, so an idle moment says little about a worker with many of them. One that is under
way stays, unless its worker is busier than the least loaded by more than a margin.

Source: `sticky_least_loaded` and `/finish_session` of vllm-router (vllm-project/router #235, prime-rl #3563),
which never breaks a bond; the margin per session is verl's `affinity_break_margin` (verl #7435), the ratio
beside it SGLang's second threshold for imbalance.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixway.core.config import StickyLeastLoadedPolicyConfig
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.session_bindings import SessionBindings
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class StickyLeastLoaded(Policy):
    """Requests without a session go to the least loaded worker, and bind nothing."""

    name = "sticky_least_loaded"
    reads_session = True

    def __init__(self, config: StickyLeastLoadedPolicyConfig) -> None:
        self._margin = config.break_margin
        self._ratio = config.break_ratio
        self._bonds = SessionBindings(config.ttl_s, config.most_sessions)

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        requests = [worker.load.all_requests for worker in candidates]
        sessions = [self._bonds.count_sessions(worker) for worker in candidates]
        most = max(sessions) + 1
        scores = Scores(
            [count + others / most for count, others in zip(requests, sessions, strict=True)],
            ("requests", "sessions"),
            list(zip(requests, sessions, strict=True)),
        )
        if request.session is None:
            scores.reason = "no session"
            return scores
        bound = self._bonds.find_worker(request.session, view.now)
        if bound is None:
            scores.reason = "new session"
        elif bound not in candidates:
            scores.reason = "its worker cannot answer"
        elif self._is_too_busy(bound.load.all_requests, min(requests)):
            scores.reason = "its worker is too busy"
        else:
            scores.reason = "bound"
            scores.costs = [float(worker is not bound) for worker in candidates]
        return scores

    def _is_too_busy(self, requests: int, least: int) -> bool:
        return self._margin is not None and requests - least > self._margin and requests > self._ratio * least

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.session is not None:
            self._bonds.bind_session(request.session, worker, now)

    def finish(self, session: str) -> bool:
        return self._bonds.release_session(session)

    def forget(self, worker: Worker) -> None:
        self._bonds.release_worker(worker)
