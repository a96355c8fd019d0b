"""The sections `gateway`, `limits`, `pipeline` and `telemetry`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, IPvAnyNetwork
from yarl import URL

from radixway.core.config.base import Bearer, ConfigSection, Host


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
    """Bodies being read, all together, but for the first 64 KiB of each. What exceeds it: 503."""


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


Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
Protocol = Literal["http/protobuf", "grpc"]


class TracingConfig(ConfigSection):
    """Traces by OpenTelemetry (docs/observability.md). What is not said here is read from `OTEL_*`."""

    enabled: bool | None = None
    """By default where there is an endpoint, here or in `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    endpoint: Endpoint | None = None
    """The collector: `http://127.0.0.1:4318`, or `http://127.0.0.1:4317` for gRPC."""
    protocol: Protocol | None = None
    """How spans are sent; by default as `OTEL_EXPORTER_OTLP_PROTOCOL` says, else `http/protobuf`."""
    headers: dict[HeaderName, Bearer] = Field(default_factory=dict)
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
    """Further resource attributes: `deployment.environment.name` …"""
    record_prompts: bool = False
    """Put prompts into spans, where every reader of traces sees them."""
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


MAX_PROCESSES = 64

CorsOrigin = Annotated[str, Field(pattern=r"^(\*|https?://[^/\s]+)$")]


class GatewayConfig(ConfigSection):
    """The server that clients reach."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=30000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    admin_key: Bearer | None = None
    """Key of calls that change something (`/add_worker` …): `Authorization: Bearer KEY`."""
    admin_networks: tuple[IPvAnyNetwork, ...] = ()
    """Networks (`10.0.0.0/8`) from which these calls need no key: engines that add themselves have none."""
    processes: Annotated[int, Field(ge=1, le=MAX_PROCESSES)] | Literal["auto"] = 1
    """Processes that answer at the address, for `radixway serve` (docs/scale.md); `auto`: one for each core
    that this process may use."""
    insecure: bool = False
    """Listen where other machines reach it (`host`) though they may then ask models without a key."""
    hosts: tuple[Host, ...] = ()
    """Names (`models.example.com`, with the port if it is not the scheme's own) under which browsers reach
    the gateway, where it needs no keys, or a proxy before it changes the `Host` header."""
    cors_origins: tuple[CorsOrigin, ...] = ()
    """Web pages of other sites that may ask the gateway (`https://app.example.com`), or `*` for all: answered
    as browsers want it (CORS). Administrative calls need a key there."""
    trusted_hops: tuple[IPvAnyNetwork, ...] = ()
    """Networks (`10.0.0.0/8`) of proxies whose model, worker and priority headers count (docs/http.md)."""
    trusted_keys: tuple[Bearer, ...] = ()
    """Callers with one of these as their bearer token are trusted likewise."""
    max_body_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Largest request body; a larger one is answered with 413."""
    request_timeout_s: float = Field(default=600, gt=0)
    """How long one request may take, answer included."""
    drain_s: float = Field(default=30, ge=0)
    """How long running requests may go on after the gateway was asked to stop."""


class RetryConfig(ConfigSection):
    """Retries when a worker fails before the first byte of its answer."""

    attempts: int = Field(default=3, ge=1)
    """Workers asked in all."""
    backoff_s: float = Field(default=0.05, ge=0)
    """Wait before a worker is asked a second time; doubled each round. Another worker is asked at once."""


class PipelineConfig(ConfigSection):
    """The middlewares between an endpoint and the workers, outermost first."""

    middlewares: tuple[str, ...] = ("radixway.core.pipeline.retry.Retry",)
    """Dotted paths of classes that follow `radixway.core.pipeline.Middleware`."""
    retry: RetryConfig = RetryConfig()


class TelemetryConfig(ConfigSection):
    """Logs, traces and the request journal."""

    logs: LogsConfig = LogsConfig()
    journal_capacity: int = Field(default=10_000, ge=0)
    """Requests that `/explain/{request_id}` still knows, as far as 256 MiB hold them."""
    tracing: TracingConfig = TracingConfig()
