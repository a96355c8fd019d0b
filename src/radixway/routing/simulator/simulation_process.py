"""A process that simulates for another: `python -m radixway.routing.simulator.simulation_process`.

It reads its `SimulationTask` as a line of JSON from standard input and writes lines of JSON to standard
output: how far
it has come, and last a result or an error. It ends when its input does, so that it does not outlive whoever
wants its result.
"""

import os
import resource
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import msgspec

from radixway.routing.simulator.comparison import compare_policies, parse_policies
from radixway.routing.simulator.job_queue import SimulationMessage, SimulationTask
from radixway.routing.simulator.report import compute_curves, compute_figures
from radixway.routing.simulator.trace import read_trace


def run_task(task: SimulationTask) -> SimulationMessage:
    """Simulate, and say how far it has come; the last word."""
    try:
        policies = parse_policies(task.policies)
        trace = read_trace(Path(task.trace), task.block_tokens, task.most_requests)
        if task.limit is not None:
            del trace.requests[task.limit :]
        _write_message(SimulationMessage(total=len(policies) * len(trace.requests)))
        setting = task.to_settings()
        outcomes = compare_policies(
            trace, policies, setting, progress=lambda done: _write_message(SimulationMessage(done=done))
        )
    except ValueError as error:
        return SimulationMessage(error=str(error))
    except MemoryError:
        return SimulationMessage(
            error=f"this takes more than the {task.memory_bytes} bytes of memory that there are"
        )
    prompts = sum(request.input_tokens for request in trace.requests)
    return SimulationMessage(
        result={
            "trace": {
                "requests": len(trace.requests),
                "prompt_tokens": prompts,
                "block_tokens": trace.block_tokens,
                "lasts_s": trace.requests[-1].at,
            },
            "policies": {
                name: {"figures": asdict(compute_figures(outcome)), "curves": compute_curves(outcome)}
                for name, outcome in outcomes.items()
            },
        }
    )


def _write_message(message: SimulationMessage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):  # holding its buffer's lock would abort the interpreter's end
        pass
    os._exit(1)


def _main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=SimulationTask)
    Thread(target=_exit_with_parent, daemon=True).start()
    os.nice(10)  # processes that answer requests on this machine come first
    with suppress(ValueError, OSError):  # a system without such limits
        resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
    _write_message(run_task(task))


if __name__ == "__main__":
    _main()
