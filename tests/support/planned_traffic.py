"""Traffic and traces for tests of the planner."""

import random

from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.routing.simulator import RequestTrace
from radixway.routing.simulator.trace import TraceRequest

SECONDS = 5.0


def traffic(per_s, *, prompt=1000, cached=0, output=100, seconds=SECONDS, itl_s=0.02, ttft_s=0.3):
    """So many requests a second, all alike, for some seconds."""
    seen = TrafficWindow(seconds)
    for _ in range(round(per_s * seconds)):
        seen.on_arrival()
        seen.on_placed(prompt, prompt - cached)
        seen.on_first_token(ttft_s)
        seen.on_finished(output, itl_s * (output - 1))
    return seen


def trace(rate, seconds, *, prompt=1000, output=60, seed=0):
    """Independent arrivals, `rate(t)` a second at time t, that share no prefixes."""
    draw, at, requests = random.Random(seed), 0.0, []
    while (at := at + draw.expovariate(rate(at))) < seconds:
        requests.append(TraceRequest(at, max(1, round(prompt * draw.lognormvariate(0, 0.5))), output, ()))
    return RequestTrace(requests, 16)
