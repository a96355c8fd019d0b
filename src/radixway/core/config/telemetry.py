"""The section `telemetry.tracing`: whose traces are kept, and where they go.

The section `telemetry.logs`: what is logged, and how it looks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr
from yarl import URL

from radixway.core.config.base import ConfigSection


def _check_endpoint(text: str) -> str:
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"this is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError("a collector's address is http(s)://host:port, for gRPC too")
    if url.user or url.password:
        raise ValueError("a collector's URL takes no credentials: they belong into `headers`")
    return text


def _check_header(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a header must be printable ASCII")
    return secret


Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[SecretStr, AfterValidator(_check_header)]
Protocol = Literal["http/protobuf", "grpc"]


class TracingConfig(ConfigSection):
    """Traces by OpenTelemetry (docs/observability.md). What is not said here is read from `OTEL_*`."""

    enabled: bool | None = None
    """By default where there is an endpoint, here or in `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    endpoint: Endpoint | None = None
    """The collector: `http://127.0.0.1:4318`, or `http://127.0.0.1:4317` for gRPC."""
    protocol: Protocol | None = None
    """By default `http/protobuf`, unless `OTEL_EXPORTER_OTLP_PROTOCOL` says otherwise."""
    """How spans are sent; by default as `OTEL_EXPORTER_OTLP_PROTOCOL` says, else by HTTP."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Sent with each export: keys of a service that keeps traces."""
    timeout_s: float | None = Field(default=None, gt=0, le=3600)
    """How long an export may take, tries included."""
    sample_ratio: float | None = Field(default=None, ge=0, le=1)
    """Share of requests that are traced, of those whose caller has not decided it."""
    parent_based: bool = True
    """A caller that is believed has decided it with the `traceparent` that it sends."""
    service_name: str | None = Field(default=None, min_length=1)
    """An engine adds `-engine` to it."""
    resource: dict[str, str] = Field(default_factory=dict)
    """What else is said of this process: `deployment.environment.name` …"""
    record_prompts: bool = False
    """Whether requests' texts go into their spans. Whoever reads the traces then reads them."""
    queue_size: int = Field(default=2048, ge=1)
    """Traced requests that wait for their export; those that come then are dropped, and counted."""
    interval_s: float = Field(default=5.0, gt=0, le=3600)
    """How often what waits is exported."""


class LogsConfig(ConfigSection):
    """Lines on standard error (docs/observability.md)."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["auto", "json", "console"] = "auto"
    """`auto`: for people on a terminal, JSON elsewhere."""
    requests: bool = True
    """A line for each request."""
