"""A process that simulates for another: `python -m radixway.simulate.child`.

It is told its `Task` as a line of JSON on standard input and tells lines of JSON on standard output: how far
it has come, and last a result or an error. It ends when its input does, so that it does not outlive whoever
wants its result.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import msgspec

from radixway.simulate.comparison import compare, read_policies
from radixway.simulate.curves import curves_of
from radixway.simulate.figures import figures_of
from radixway.simulate.task import Said, Task
from radixway.simulate.trace import TraceError, read_trace


def carry_out(task: Task) -> Said:
    """Simulate, and say how far it has come; the last word."""
    try:
        policies = read_policies(task.policies)
        trace = read_trace(Path(task.trace), task.block_tokens, task.most_requests)
        if task.limit is not None:
            del trace.requests[task.limit :]
        _say(Said(total=len(policies) * len(trace.requests)))
        setting = task.setting()
        outcomes = compare(trace, policies, setting, progress=lambda done: _say(Said(done=done)))
    except (ValueError, TraceError) as error:
        return Said(error=str(error))
    except MemoryError:
        return Said(error=f"this takes more than the {task.memory_bytes} bytes of memory that there are")
    prompts = sum(request.input_tokens for request in trace.requests)
    return Said(
        result={
            "trace": {
                "requests": len(trace.requests),
                "prompt_tokens": prompts,
                "block_tokens": trace.block_tokens,
                "lasts_s": trace.requests[-1].at,
            },
            "policies": {
                name: {"figures": asdict(figures_of(outcome)), "curves": curves_of(outcome)}
                for name, outcome in outcomes.items()
            },
        }
    )


def _say(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):  # holding its buffer's lock would abort the interpreter's end
        pass
    os._exit(1)


def _main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    Thread(target=_end_with_input, daemon=True).start()
    os.nice(10)  # whoever answers requests on this machine goes first
    with suppress(ValueError, OSError):  # a system without such limits
        resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
    _say(carry_out(task))


if __name__ == "__main__":
    _main()
