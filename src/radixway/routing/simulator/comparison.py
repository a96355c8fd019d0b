"""Runs one trace under several policies, each in a process of its own where there are cores."""

import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from radixway.core.config import AnyPolicy, SessionPolicyConfig, parse_policy
from radixway.routing.simulator.simulation import SimulationOutcome, SimulationSettings, TraceSimulation
from radixway.routing.simulator.trace import RequestTrace

_POLL_S = 0.1

SimulationProgress = Callable[[int], None]
"""Called with the number of requests sent, of all policies together."""


def parse_policies(text: str) -> dict[str, AnyPolicy]:
    """Policies as on a command line, `a,b:parameter=value`, by the names that they were given.

    Raises ValueError.
    """
    policies: dict[str, AnyPolicy] = {}
    for name in (part.strip() for part in text.split(",")):
        if not name:
            raise ValueError(f"policies are names with commas between them, not {text!r}")
        if name in policies:
            raise ValueError(f"the policy {name!r} is named twice")
        policies[name] = parse_policy(name)
    return policies


def compare_policies(
    trace: RequestTrace,
    policies: Mapping[str, AnyPolicy],
    setting: SimulationSettings,
    jobs: int = 1,
    progress: SimulationProgress = lambda done: None,
) -> dict[str, SimulationOutcome]:
    """Simulate `trace` under each of `policies` in `jobs` processes, whose number changes no result.

    Raises ValueError for a policy by sessions if the trace tells of none.
    """
    if any(isinstance(policy, SessionPolicyConfig) for policy in policies.values()) and not any(
        request.session is not None for request in trace.requests
    ):
        raise ValueError("the policy 'session' cannot be simulated: the trace tells of no sessions")
    if jobs == 1 or len(policies) == 1:
        return _compare_in_process(trace, policies, setting, progress)
    context = get_context("spawn")  # a fork of a process with threads may hang
    sent = context.Array("q", len(policies), lock=False)
    with ProcessPoolExecutor(jobs, context, _init_process, (trace, setting, sent)) as pool:
        runs = {name: pool.submit(_run_policy, place, policies[name]) for place, name in enumerate(policies)}
        while wait(runs.values(), _POLL_S).not_done:
            progress(sum(sent))
        return {name: run.result() for name, run in runs.items()}


def _compare_in_process(
    trace: RequestTrace,
    policies: Mapping[str, AnyPolicy],
    setting: SimulationSettings,
    progress: SimulationProgress,
) -> dict[str, SimulationOutcome]:
    outcomes: dict[str, SimulationOutcome] = {}

    def tell(done: int) -> None:
        progress(len(outcomes) * len(trace.requests) + done)

    for name, policy in policies.items():
        outcomes[name] = TraceSimulation(trace, policy, setting).run_trace(tell)
    return outcomes


_given: tuple[RequestTrace, SimulationSettings, Any]
"""Set in a process of the pool: the trace, the setting, and the progress queue."""


def _init_process(trace: RequestTrace, setting: SimulationSettings, sent: Any) -> None:
    global _given
    _given = trace, setting, sent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit with the parent, which may be killed."""
    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)


def _run_policy(place: int, policy: AnyPolicy) -> SimulationOutcome:
    trace, setting, sent = _given

    def tell(done: int) -> None:
        sent[place] = done

    return TraceSimulation(trace, policy, setting).run_trace(tell)
