"""Messages to and from a process that simulates."""

from __future__ import annotations

from typing import Any

import msgspec

from radixway.routing.simulator.engine_model import EngineConstants
from radixway.routing.simulator.simulation import SimulationSettings


class SimulationTask(msgspec.Struct, kw_only=True):
    """A simulation to run, with its limits."""

    trace: str
    """A path; messages name it as it is written here."""
    policies: str
    """As on a command line."""
    workers: int
    kv_tokens: int
    speedup: float
    events: bool
    event_delay_s: float
    engine: str
    """As on a command line; empty for the usual constants."""
    block_tokens: int
    """A block, where the trace does not say."""
    limit: int | None
    """Only so many requests, the first ones."""
    most_requests: int
    """A trace with more is refused."""
    memory_bytes: int

    def to_settings(self) -> SimulationSettings:
        """Raises ValueError."""
        constants = EngineConstants.parse_constants(self.engine) if self.engine else EngineConstants()
        return SimulationSettings(
            self.workers, self.kv_tokens, self.speedup, self.events, self.event_delay_s, constants
        )


class SimulationMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of the answer."""

    total: int | None = None
    """Requests to be sent, of all policies together."""
    done: int | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
