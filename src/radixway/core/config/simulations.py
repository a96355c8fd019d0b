"""The `simulations` section: traces that can be replayed over HTTP."""

from __future__ import annotations

from pydantic import Field

from radixway.core.config.base import ConfigSection


class SimulationsConfig(ConfigSection):
    """`/simulate` (docs/routing.md): each in a process of its own, one after another."""

    enabled: bool = True
    """Whether policies may be compared over HTTP."""
    most_trace_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Of a trace that is sent, as it is sent. `gateway.max_body_bytes` counts too."""
    most_requests: int = Field(default=100_000, ge=1)
    """Of a trace."""
    most_policies: int = Field(default=12, ge=1)
    """Of one comparison."""
    most_workers: int = Field(default=256, ge=1)
    """Of one comparison."""
    time_s: float = Field(default=600, gt=0)
    """A simulation that takes longer is ended."""
    memory_bytes: int = Field(default=2 * 2**30, ge=2**28)
    """Of its process."""
    waiting: int = Field(default=4, ge=0)
    """Simulations that may wait for the one that runs."""
    kept: int = Field(default=20, ge=1)
    """Simulations that are over and can still be looked at."""
