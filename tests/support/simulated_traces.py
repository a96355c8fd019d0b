"""Small traces for tests of the simulator."""

import json
from pathlib import Path

from radixway.routing.simulator import RequestTrace
from radixway.routing.simulator.trace import TraceRequest

BLOCK = 16


def conversations(count: int, turns: int, *, every_s: float = 0.5, grows: int = 4) -> RequestTrace:
    """Conversations that take turns; each turn adds `grows` blocks to the prompt."""
    requests = []
    for turn in range(turns):
        for number in range(count):
            blocks = tuple(1000 * number + at for at in range(grows * (turn + 1)))
            at = (turn * count + number) * every_s / count
            requests.append(TraceRequest(at, len(blocks) * BLOCK + 5, 8, blocks))
    return RequestTrace(requests, BLOCK)


def write(path: Path, trace: RequestTrace) -> Path:
    lines = [
        {
            "timestamp": request.at * 1e3,
            "input_length": request.input_tokens,
            "output_length": request.output_tokens,
            "hash_ids": [*request.blocks, 10**9 + number],
            "block_size": trace.block_tokens,
        }
        for number, request in enumerate(trace.requests)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
