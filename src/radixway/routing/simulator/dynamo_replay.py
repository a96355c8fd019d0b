"""`radixway simulate --against dynamo`: our choices on Dynamo's simulated engines, beside its router's.

The wheel `ai-dynamo-runtime` replays traces on simulated engines (`run_mocker_trace_replay`), with requests
in turn or by Dynamo's router. It takes no choices from outside. But its engines do not know of each other, so
what is sent to one of them can be replayed with that one alone:

    trace -> our simulation -> per worker: requests, and when they were sent -> Dynamo's replay, one worker
    trace -------------------------------------------------------------------> Dynamo's replay, its router

Our selector hears the first tokens of our engines, not of Dynamo's. `DYNAMO_CONSTANTS` make them alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from radixway.core.config import AnyPolicy
from radixway.routing import WorkerChoice
from radixway.routing.simulator.engine_model import EngineConstants, SimulatedRequest
from radixway.routing.simulator.simulation import SimulationOutcome, SimulationSettings, TraceSimulation
from radixway.routing.simulator.trace import RequestTrace, TraceRequest

DYNAMO_CONSTANTS = EngineConstants(
    step_s=0.0057, prefill_s=21.3e-6, decode_s=0.000_04, context_s=0.000_000_02, step_tokens=2048
)
"""Fitted to single prompts and batches on Dynamo 1.6.1's default engine with steps of 2,048 tokens."""

_APART_MS = 1e-6
_ROUTER_SCALES = (1.0, 8.0, 64.0)
"""Values of `prefill_load_scale` that Dynamo's router is run with; 1 is its default."""


class DynamoUnavailableError(ValueError):
    """Dynamo's runtime cannot be imported; the message says what to do."""


@dataclass(frozen=True, slots=True)
class _SentRequest:
    job: SimulatedRequest
    at: float
    """When it was sent to the worker; seconds."""


class _RecordedSimulation(TraceSimulation):
    """A simulation that keeps what was sent to each worker, and when."""

    def __init__(self, trace: RequestTrace, policy: AnyPolicy, setting: SimulationSettings) -> None:
        super().__init__(trace, policy, setting)
        self.sent: list[list[_SentRequest]] = [[] for _ in range(setting.workers)]

    def _on_sent(self, job: SimulatedRequest, choice: WorkerChoice) -> None:
        worker = self._gateways[0].workers.index(choice.worker)
        self.sent[worker].append(_SentRequest(job, self._now))


def compare_with_dynamo(
    trace: RequestTrace, policies: Mapping[str, AnyPolicy], setting: SimulationSettings
) -> dict[str, SimulationOutcome]:
    """Replay our choices under each of `policies`, and Dynamo's own, on Dynamo's engines.

    Requests come at their timestamps. Raises DynamoUnavailableError.
    """
    replay = DynamoReplay(trace.block_tokens, setting)
    outcomes = {name: replay.replay_choices(trace, policy) for name, policy in policies.items()}
    outcomes["dynamo round_robin"] = replay.replay_trace(trace, None)
    for scale in _ROUTER_SCALES:
        outcomes[f"dynamo kv_router:prefill_load_scale={scale:g}"] = replay.replay_trace(trace, scale)
    return outcomes


class DynamoReplay:
    """Runs Dynamo's offline replay. Raises DynamoUnavailableError when it is made where there is none."""

    def __init__(self, block_tokens: int, setting: SimulationSettings) -> None:
        os.environ.setdefault("DYN_LOG", "error")  # else it logs every choice
        try:
            self._core = import_module("dynamo._core")
            self._run = self._core.run_mocker_trace_replay
        except (ImportError, AttributeError) as error:
            raise DynamoUnavailableError(
                "--against dynamo needs Dynamo's runtime with its offline replay (1.6.1 has it): "
                f"pip install ai-dynamo-runtime ({error})"
            ) from None
        self._setting = replace(setting, open_loop=True)
        self._block_tokens = block_tokens

    def replay_choices(self, trace: RequestTrace, policy: AnyPolicy) -> SimulationOutcome:
        """Return what Dynamo's engines make of our choices under `policy`."""
        simulation = _RecordedSimulation(trace, policy, self._setting)
        ours, outcome = simulation.run_trace(), SimulationOutcome()
        outcome.skipped, outcome.held, outcome.most_held = ours.skipped, ours.held, ours.most_held
        outcome.held_s = ours.held_s
        for sent in simulation.sent:
            requests = [(each.at, each.job) for each in sent]
            replayed = self._replay(requests, num_workers=1) if requests else []
            self._add_requests(outcome, replayed, [each.at - each.job.requested for each in sent])
            outcome.requests.append(len(sent))
        return outcome

    def replay_trace(self, trace: RequestTrace, router_scale: float | None) -> SimulationOutcome:
        """Return Dynamo's own outcome: by its router with that `prefill_load_scale`, or in turn if None."""
        setting, outcome = self._setting, SimulationOutcome()
        fitting = [each for each in trace.requests if self._fits(each)]
        outcome.skipped = len(trace.requests) - len(fitting)
        options: dict[str, Any] = {"num_workers": setting.workers, "router_mode": "round_robin"}
        if router_scale is not None:
            options |= {
                "router_mode": "kv_router",
                "router_config": self._core.KvRouterConfig(
                    prefill_load_scale=router_scale, use_kv_events=setting.events
                ),
                "kv_event_lag_ms": setting.event_delay_s * 1e3 if setting.events else None,
            }
        requests = [(each.at / setting.speedup, each) for each in fitting]
        replayed = self._replay(requests, **options) if requests else []
        self._add_requests(outcome, replayed, [0.0] * len(requests))
        by_worker = [0] * setting.workers
        for each in replayed:
            by_worker[each["decode_worker_idx"]] += 1
        outcome.requests = by_worker
        return outcome

    def _fits(self, request: TraceRequest) -> bool:
        blocks = -(-(request.input_tokens + request.output_tokens) // self._block_tokens)
        return blocks <= self._setting.kv_tokens // self._block_tokens

    def _replay(
        self, requests: Sequence[tuple[float, SimulatedRequest | TraceRequest]], **options: Any
    ) -> list[dict[str, Any]]:
        """Return Dynamo's records of `requests`, with the times at which they come, in their order."""
        constants, size = self._setting.constants, self._block_tokens
        engine = {
            "num_gpu_blocks": self._setting.kv_tokens // size,
            "block_size": size,
            "max_num_seqs": constants.max_running,
            "max_num_batched_tokens": constants.step_tokens,
        }
        with TemporaryDirectory() as folder:
            path = Path(folder) / "trace.jsonl"
            path.write_bytes(b"\n".join(self._trace_lines(requests)) + b"\n")
            result = self._run(
                [str(path)],
                extra_engine_args={"engine": engine},
                trace_block_size=size,
                capture_per_request=True,
                **options,
            )
        return sorted(result.per_request, key=itemgetter("arrival_time_ms"))

    def _trace_lines(
        self, requests: Sequence[tuple[float, SimulatedRequest | TraceRequest]]
    ) -> Iterable[bytes]:
        """Yield lines in Mooncake's format, no two at the same time, so that their records can be told apart.

        The last, partial block of a prompt is nobody else's.
        """
        size, start = self._block_tokens, min(at for at, _ in requests)
        unshared = 1 + max((max(each.blocks, default=0) for _, each in requests), default=0)
        for number, (at, each) in enumerate(requests):
            blocks = [*each.blocks]
            for _ in range(-(-each.input_tokens // size) - len(blocks)):
                blocks.append(unshared)
                unshared += 1
            yield msgspec.json.encode(
                {
                    "timestamp": (at - start) * 1e3 + number * _APART_MS,
                    "input_length": each.input_tokens,
                    "output_length": each.output_tokens,
                    "hash_ids": blocks,
                }
            )

    def _add_requests(
        self, outcome: SimulationOutcome, replayed: Sequence[Mapping[str, Any]], held_s: Sequence[float]
    ) -> None:
        """Add Dynamo's records to `outcome`, each with the seconds that it was held before."""
        setting = self._setting
        for each, waited_s in zip(replayed, held_s, strict=True):
            ttft_s = waited_s + each["ttft_ms"] / 1e3
            itl_s = each["itl_ms"] / 1e3 if each["output_length"] > 1 else None
            outcome.arrived_s.append(each["arrival_time_ms"] / 1e3 - waited_s)
            outcome.ttft_s.append(ttft_s)
            if itl_s is not None:
                outcome.itl_s.append(itl_s)
            outcome.good += ttft_s <= setting.slo_ttft_s and (itl_s or 0.0) <= setting.slo_itl_s
            outcome.input_tokens += each["input_length"]
            outcome.cached_tokens += each["reused_input_tokens"]
            outcome.preemptions += each["readmission_count"]
