"""What the steps of the road take, each by itself."""

from __future__ import annotations

import re

from prometheus_client.registry import Collector

from radixway.telemetry.metrics.figures import Buckets, Distribution

_SECONDS = (
    0.00001,
    0.00005,
    0.0001,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Steps:
    """By the name of the middleware's class, which the configuration bounds."""

    def __init__(self) -> None:
        self._middlewares = Distribution(
            "radixway_middleware_seconds",
            "Seconds that a middleware took itself, without what it called",
            ("middleware",),
            _SECONDS,
        )
        self._selections = Distribution(
            "radixway_selection_seconds",
            "Seconds from a request's end of the road to its worker, where it did not have to wait for room",
            ("policy",),
            _SECONDS,
        )

    def collectors(self) -> tuple[Collector, ...]:
        """What is to be told of them."""
        return self._middlewares, self._selections

    def of(self, middleware: object) -> Buckets:
        """Where its times are counted: under `semantic_cache`, if it is a `SemanticCache`."""
        return self._middlewares.of(name_of(middleware))

    def selecting(self, policy: str) -> Buckets:
        """Where the policy's times are counted."""
        return self._selections.of(policy)


def name_of(middleware: object) -> str:
    """What a middleware is called in metrics."""
    kind = middleware if isinstance(middleware, type) else type(middleware)
    return _WORD.sub("_", kind.__name__.strip("_")).lower()
