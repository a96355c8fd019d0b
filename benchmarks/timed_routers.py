"""The routers that `ray_router.py` sets side by side, with what each does for a request timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router import (
    PrefixCacheAffinityRouter as Published,
)
from ray.serve._private.request_router.pow_2_router import PowerOfTwoChoicesRequestRouter

from radixway.cluster.ray_router import ExpectedTimeRouter, PrefixAffinityRouter


class Timed:
    """A router whose hooks are timed, each once where one calls another."""

    def initialize_state(self, **kwargs: Any) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.is_timing = False
        super().initialize_state(**kwargs)  # type: ignore[misc]

    @contextmanager
    def timing(self) -> Iterator[None]:
        if self.is_timing:
            yield
            return
        self.is_timing = True
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.cpu_s += time.thread_time() - cpu
        self.wall_s += time.perf_counter() - wall
        self.is_timing = False

    async def choose_replicas(self, *args: Any, **kwargs: Any) -> Any:
        with self.timing():
            return await super().choose_replicas(*args, **kwargs)  # type: ignore[misc]

    def on_request_routed(self, *args: Any, **kwargs: Any) -> None:
        with self.timing():
            super().on_request_routed(*args, **kwargs)  # type: ignore[misc]

    def on_request_completed(self, *args: Any, **kwargs: Any) -> None:
        with self.timing():
            super().on_request_completed(*args, **kwargs)  # type: ignore[misc]


class TimedOurs(Timed):
    """Ours does some of its work before Ray looks for a replica, and once it has one."""

    def _read(self, *args: Any) -> Any:
        with self.timing():
            return super()._read(*args)  # type: ignore[misc]

    def _move(self, *args: Any) -> None:
        with self.timing():
            super()._move(*args)  # type: ignore[misc]


class TimedPowerOfTwo(Timed, PowerOfTwoChoicesRequestRouter):
    pass


class TimedPublished(Timed, Published):
    pass


class TimedPrefixAffinity(TimedOurs, PrefixAffinityRouter):
    pass


class TimedExpectedTime(TimedOurs, ExpectedTimeRouter):
    pass


ROUTERS: dict[str, tuple[type, dict[str, Any]]] = {
    "power of two": (TimedPowerOfTwo, {}),
    "published": (TimedPublished, {"imbalanced_threshold": 10, "match_rate_threshold": 0.1}),
    "PrefixAffinityRouter": (TimedPrefixAffinity, {}),
    "ExpectedTimeRouter": (TimedExpectedTime, {}),
}
