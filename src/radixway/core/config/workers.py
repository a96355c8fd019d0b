"""The `workers` and `discovery` sections: which workers there are, and what is known of them."""

import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from yarl import URL

from radixway.core.config.base import Bearer, ConfigSection, Port, ZmqEndpoint, parse_off


class KvEventsConfig(ConfigSection):
    """A worker's publisher. Its data-parallel ranks count their ports up from these."""

    endpoint: ZmqEndpoint
    """Where it publishes: `tcp://HOST:5557` and `ipc://PATH` are connected to; `tcp://*:5557` is bound here,
    for an engine that is told to connect to the gateway."""
    replay_endpoint: ZmqEndpoint | None = None
    """Where it answers for what was missed. Without it a gateway that starts after its engine, or misses
    a message, cannot know what the engine holds until that is restarted or cleared."""
    topic: str = ""
    """Prefix of its messages' first frame."""
    ranks: int = Field(default=1, ge=1, le=1024)
    """Its data-parallel ranks."""

    @model_validator(mode="after")
    def _check_reachable(self) -> Self:
        if self.replay_endpoint is not None and "*" in self.replay_endpoint:
            raise ValueError("replay_endpoint is the worker's: give its host, not *")
        if self.endpoint.endswith(":*"):
            raise ValueError("endpoint needs a port that the worker can know, not *")
        endpoints = (self.endpoint, self.replay_endpoint or self.endpoint)
        if self.ranks > 1 and not all(endpoint.startswith("tcp://") for endpoint in endpoints):
            raise ValueError("several ranks need tcp endpoints, whose ports are counted up")
        return self


def _parse_events(value: Any) -> Any:
    """Parse events; report one mistake instead of one per form."""
    value = parse_off(value)
    if value in ("auto", "off") or isinstance(value, KvEventsConfig):
        return value
    if not isinstance(value, dict):
        raise ValueError("this must be auto, off, or a mapping with an endpoint")
    try:
        return KvEventsConfig.model_validate(value)
    except ValidationError as error:
        mistake = error.errors()[0]
        place = "".join(f"{part}: " for part in mistake["loc"])
        raise ValueError(place + mistake["msg"].removeprefix("Value error, ")) from None


KvEventsSetting: TypeAlias = Annotated[
    Literal["auto", "off"] | KvEventsConfig, BeforeValidator(_parse_events)
]


class TransferConfig(ConfigSection):
    """The protocol by which a worker hands KV on to another. `vllm` alone is short for `{dialect: vllm}`."""

    dialect: Literal["vllm", "sglang"]
    """Dialect: vLLM's `kv_transfer_params` or SGLang's `bootstrap_room`."""
    bootstrap_port: Port = 8998
    """Port of an SGLang prefill worker: its `--disaggregation-bootstrap-port`."""


def _spell_out(value: Any) -> Any:
    return {"dialect": value} if isinstance(value, str) else value


Transfer = Annotated[TransferConfig, BeforeValidator(_spell_out)]

_HOST_NAME = re.compile(r"(?=.{1,254}$)([\w-]{1,63}\.)*[\w-]{1,63}\.?", re.ASCII)
_NUMERIC_HOST = re.compile(r"([^:]*\.)?(\d+|0x[\da-f]*)\.?")
"""Host names that resolvers read as an IPv4 address."""


def check_worker_url(text: str) -> str:
    """Return the worker's URL `text` in one spelling: ASCII, no default port, no trailing slash.

    Raises ValueError, which repeats no credentials, unless it is `http(s)://host[:port][/path]`.
    """
    shown = "***@" + text.rpartition("@")[2] if "@" in text else text
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"{shown!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError(f"a worker's URL must be http(s)://host[:port], not {shown!r}")
    if url.query_string or url.fragment or url.user or url.password:
        raise ValueError(f"a worker's URL takes no credentials, query or fragment: {shown!r}")
    if ":" not in url.raw_host and _HOST_NAME.fullmatch(url.raw_host) is None:
        raise ValueError(f"its host is no host name: {shown[:300]!r}")
    if _NUMERIC_HOST.fullmatch(url.raw_host):
        try:
            IPv4Address(url.raw_host)
        except ValueError:
            raise ValueError(f"an IPv4 address must be four plain numbers: {shown!r}") from None
    if url.is_default_port():
        url = url.with_port(None)
    return str(url).rstrip("/")


WorkerUrl = Annotated[str, AfterValidator(check_worker_url)]

Role = Literal["any", "prefill", "decode"]

PoolName = Annotated[str, Field(min_length=1)]


class WorkerTraits(ConfigSection):
    """Traits of workers known beforehand; models and capacity are read from the worker where not given."""

    models: tuple[str, ...] = ()
    """Served models; by default what the worker reports."""
    role: Role = "any"
    """One that only prefills or only decodes is used in pairs (docs/routing.md)."""
    disaggregation: Transfer | None = None
    """How it hands KV on or takes it; needed where it has another role than `any`."""
    kv_tokens: int | None = Field(default=None, ge=1, le=2**53)
    """KV tokens its cache holds."""
    max_batch_size: int | None = Field(default=None, ge=1, le=2**53)
    """Requests it runs at a time."""
    max_in_flight: int | None = Field(default=None, ge=1, le=2**53)
    """Requests that it is given at a time; more wait. Goes before the limits under `routing`."""
    api_key: Bearer | None = None
    """Sent to the worker as `Authorization: Bearer KEY`."""
    pools: tuple[PoolName, ...] = ()
    """Pools of the worker, to which tenants may be confined (docs/tenants.md)."""
    kv_events: KvEventsSetting = "auto"
    """`auto`: where the worker itself says that it publishes. SGLang and our engine do; vLLM does not."""

    @model_validator(mode="after")
    def _check_disaggregation(self) -> Self:
        if self.role != "any" and self.disaggregation is None:
            raise ValueError(f"role {self.role} needs disaggregation: vllm or sglang, its way to pass KV")
        return self


class WorkerSettings(WorkerTraits):
    """A worker, configured or discovered."""

    url: WorkerUrl
    """URL of the worker: `http(s)://HOST[:PORT][/PATH]`."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Shown in `/workers` for those who manage workers; routing does not read them, nor the next two."""
    priority: int = 50
    """Shown in `/workers` alone."""
    cost: float = 1.0
    """Shown in `/workers` alone."""


PortName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]

_HOST = "{host}"
_NAME = re.compile(
    r"(?!.{254})([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9_]([\w-]{0,62})\.?"
)
_SERVER = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")


class FoundTraits(WorkerTraits):
    """As under `workers`, without `url`. `{host}` in the endpoints of `kv_events` is each worker's host."""

    def worker_at(self, url: str) -> WorkerSettings:
        """Return the settings of the worker at `url`."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(events := self.kv_events, KvEventsConfig):
            host = URL(url).raw_host or ""
            host = f"[{host}]" if ":" in host else host
            replay = events.replay_endpoint
            here = {"endpoint": events.endpoint.replace(_HOST, host)}
            here |= {"replay_endpoint": replay.replace(_HOST, host)} if replay else {}
            given["kv_events"] = events.model_copy(update=here)
        return WorkerSettings.model_validate({"url": url, **given})


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no DNS name: give vllm-svc.ai.svc.cluster.local or _http._tcp.vllm-svc…"
        )
    return name


def _check_server(server: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None or int(found[2] or 53) not in range(1, 65536):
        raise ValueError(f"{server!r} is no name server: give its address, 10.96.0.10 or [fd00::a]:5353")
    return server


class DnsConfig(ConfigSection):
    """A name of which every address is a worker, as of Kubernetes' headless services. Needs radixway[dns]."""

    name: Annotated[str, AfterValidator(_check_name)]
    """DNS name. With SRV records, which have ports, it begins with `_`: `_http._tcp.vllm-svc.ai`."""
    port: Port | None = None
    """Port of all workers; needed without SRV records."""
    scheme: Literal["http", "https"] = "http"
    """How its workers are called."""
    family: Literal["any", "ipv4", "ipv6"] = "any"
    """Address family. A worker with one of each kind is two workers, unless this is set."""
    servers: tuple[Annotated[str, AfterValidator(_check_server)], ...] = ()
    """Name servers; those of /etc/resolv.conf where none are given."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long they are asked, all of them together."""
    least_s: float = Field(default=1.0, gt=0)
    """A shorter time to live is taken for this."""
    most_s: float = Field(default=300.0, gt=0)
    """A longer one for this."""
    keep_s: float = Field(default=600.0, ge=0)
    """Seconds for which workers are kept when the name is gone or the server does not answer."""
    worker: FoundTraits = FoundTraits()

    @model_validator(mode="after")
    def _check_port(self) -> Self:
        if (self.port is None) != self.name.startswith("_"):
            raise ValueError("give port, or a name of SRV records, which begins with _ and says the port")
        if self.most_s < self.least_s:
            raise ValueError("most_s must not be shorter than least_s")
        return self


def _check_selector(selector: str) -> str:
    if not selector.strip() or not selector.isascii() or not selector.isprintable():
        raise ValueError("give a label selector: app=vllm-worker,model=NAME")
    return selector


def _check_server_url(text: str) -> str:
    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host or url.user or url.query_string or url.fragment:
        raise ValueError("this must be http(s)://HOST:PORT")
    return str(url).rstrip("/")


class KubernetesConfig(ConfigSection):
    """EndpointSlices that are watched: every endpoint of the services that `selector` selects is a worker."""

    selector: Annotated[str, AfterValidator(_check_selector)] = "app=vllm-worker"
    """By labels of the services: `app=vllm-worker,model=NAME`."""
    namespace: str | None = Field(default=None, pattern=r"^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$")
    """None: the gateway's own. `*`: all, which needs a ClusterRole."""
    port: Port | PortName | None = None
    """The pods' port, or its name in the service. None: the only one, or the one named `http`."""
    scheme: Literal["http", "https"] = "http"
    """How its workers are called."""
    server: Annotated[str, AfterValidator(_check_server_url)] | None = None
    """The API server. None: that of the cluster in which the gateway runs."""
    token_file: Path | None = None
    """Read again for each call. None: the service account's."""
    ca_file: Path | None = None
    """CA of the API server. None: the service account's in the cluster, the system's elsewhere."""
    watch_s: float = Field(default=120.0, ge=1, le=3600)
    """Longest watch; it is then restarted where it ended, so that a dead connection is noticed."""
    worker: FoundTraits = FoundTraits()

    @model_validator(mode="after")
    def _check_token_transport(self) -> Self:
        if self.token_file is not None and (self.server or "").startswith("http://"):
            raise ValueError("token_file needs a server of https://, or everybody could read the token")
        return self


class RegistrationConfig(ConfigSection):
    """Workers that say themselves that they are there, by `POST /workers`."""

    ttl_s: float | None = Field(default=None, gt=0)
    """Seconds that it holds where they do not say; null: until they leave or are removed. They are to say it
    again about three times as often."""
    most_ttl_s: float = Field(default=3600.0, gt=0)
    """The longest that they may ask for."""

    @model_validator(mode="after")
    def _check_ttl_order(self) -> Self:
        if self.ttl_s is not None and self.ttl_s > self.most_ttl_s:
            raise ValueError("ttl_s must not be longer than most_ttl_s")
        return self


class DiscoveryConfig(ConfigSection):
    """Sources of workers, beside `workers`. What they find comes and goes without a restart."""

    registration: RegistrationConfig = RegistrationConfig()
    dns: tuple[DnsConfig, ...] = ()
    kubernetes: tuple[KubernetesConfig, ...] = ()
