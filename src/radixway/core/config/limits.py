"""The `limits` section: what a peer may send, and how long it may take."""

from __future__ import annotations

from pydantic import Field

from radixway.core.config.base import ConfigSection


class ServerLimitsConfig(ConfigSection):
    """Limits on what clients may send. The same keys hold for the gateway's server and the engine's."""

    max_header_bytes: int = Field(default=64 * 2**10, ge=1024)
    """Largest head of a request: its first line and its headers. A larger one is answered with 431."""
    max_header_count: int = Field(default=128, ge=8)
    """Most headers of a request; more are answered with 431."""
    header_timeout_s: float = Field(default=30, gt=0)
    """How long a head may take, from the connection's beginning or its own first byte. Then: 408."""
    body_timeout_s: float = Field(default=30, gt=0)
    """How long a body may stall: in each such span `min_body_bytes_per_s` must come on average. Else: 408."""
    min_body_bytes_per_s: int = Field(default=256, ge=0)
    """Slowest body that is read; 0: a body that sends anything at all goes on."""
    keep_alive_s: float = Field(default=75, gt=0)
    """How long a connection may be idle between two requests."""
    send_timeout_s: float = Field(default=60, gt=0)
    """How long a client may read nothing of an answer that waits for it. Then: the connection is cut off."""
    max_connections: int | None = Field(default=None, ge=1)
    """Most connections at a time; more are answered with 503. None: half of the files that the process may
    have open, less 64; at most 16,384. The other half is for connections to workers."""
    max_body_bytes_in_flight: int = Field(default=256 * 2**20, ge=1024)
    """Bodies that are being read, all together; the first 64 KiB of each are not counted. What exceeds it is
    answered with 503."""


class WorkerLimitsConfig(ConfigSection):
    """Limits on what workers may send."""

    max_header_bytes: int = Field(default=64 * 2**10, ge=1024)
    """Largest head of an answer. One with a larger head counts as broken, and another worker is asked."""
    max_header_count: int = Field(default=128, ge=8)
    """Most headers of an answer."""
    max_answer_bytes: int = Field(default=256 * 2**20, ge=1024)
    """Largest answer that is not a stream. A stream may go on as long as its client reads it."""


class LimitsConfig(ConfigSection):
    """Limits on what any peer may send. `gateway.max_body_bytes` limits a single request's body."""

    server: ServerLimitsConfig = ServerLimitsConfig()
    workers: WorkerLimitsConfig = WorkerLimitsConfig()
