"""The `trajectories` section: the exact tokens of conversations, kept for training."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from radixway.core.config.base import ConfigSection


class AbortConfig(ConfigSection):
    """Treatment of an answer that a worker broke off with the finish reason `abort`."""

    policy: Literal["resume", "retry", "partial"] = "resume"
    """`resume`: go on from the tokens there are. `retry`: ask again from the start. `partial`: pass it on."""
    attempts: int = Field(default=5, ge=1)
    """Requests to workers in all, the first one included; after the last, its answer is the answer."""
    wait_s: float | None = Field(default=None, ge=0)
    """Between two attempts. By default 30 under `retry`, as Slime has it, and under `resume` a second at
    most, growing and with jitter: a worker that takes new weights aborts once, not for half a minute."""


class SessionsConfig(ConfigSection):
    """Conversations of agents that know nothing of tokens."""

    path: Path | None = None
    """A SQLite file in which every call of every session is kept; without it they live in memory only."""
    idle_s: float = Field(default=3600, gt=0)
    """A session that was neither used nor finished for this long is finished for it."""
    most: int = Field(default=100_000, ge=1)
    """Sessions there may be that are not collected; one more is refused with 429."""
    on_first_use: bool = True
    """A call to a session that nobody made makes it; otherwise it is answered with 404."""


class TrajectoriesConfig(ConfigSection):
    """Recording on `/generate`, and what is kept."""

    enabled: bool = False
    """Record what passes through `/generate`. Sessions record always."""
    tokenizer: str | None = None
    """Directory or hub id. By default, per model, the one that routing uses."""
    max_bytes: int = Field(default=2**30, ge=2**16)
    """Hard bound of the store's memory."""
    max_cache_size: int | None = Field(default=None, ge=1)
    """The same in tokens, as the published interface counts it."""
    gc_threshold_k: int = Field(default=5, ge=1)
    """What no request has used for this many weight versions may go."""
    abort: AbortConfig = AbortConfig()
    sessions: SessionsConfig = SessionsConfig()
