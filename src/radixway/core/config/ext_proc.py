"""The `ext_proc` section: the endpoint for Envoy."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, IPvAnyNetwork

from radixway.core.config.base import ConfigSection
from radixway.core.config.sections import Host


class ExtProcTlsConfig(ConfigSection):
    """The server's certificate, PEM."""

    cert: Path
    """The server's certificate, PEM."""
    key: Path
    """Its private key, PEM."""
    client_ca: Path | None = None
    """When set, Envoy needs a certificate of this authority."""


class ExtProcConfig(ConfigSection):
    """An external processor for Envoy, over gRPC (docs/envoy.md). Needs radixway[envoy]."""

    enabled: bool = False
    """Whether the endpoint is on."""
    host: Host = "127.0.0.1"
    """Address to listen on; whoever reaches it is taken for Envoy."""
    port: int = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    tls: ExtProcTlsConfig | None = None
    reflection: bool = True
    """gRPC's reflection, by which tools find out what can be called."""
    max_message_bytes: int = Field(default=256 * 2**20, ge=2**20, lt=2**31)
    """Largest message from or to Envoy. One that is larger fails there, which lets it pass where Envoy fails
    open: so this is far above what Envoy's own buffers hold."""
    answer_within_s: float = Field(default=30, gt=0)
    """How long a message of Envoy's may wait for an answer, queue included; then the request is answered with
    504. Envoy's `message_timeout` must be longer, or it does what it does on failure."""
    destinations: tuple[IPvAnyNetwork, ...] = ()
    """Networks in which workers may be that Envoy is sent to. Empty: wherever the gateway has workers."""
    clear_route_cache: bool = True
    """Have Envoy choose its route by the headers that the gateway has set."""
    other_paths: Literal["refuse", "pass"] = "refuse"
    """What is done with paths that the gateway does not answer here: 404, or let through as they are."""
