"""The `discovery` section: where workers come from that are not under `workers`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from yarl import URL

from radixway.core.config.base import ConfigSection
from radixway.core.config.kv_events import KvEventsConfig
from radixway.core.config.sections import WorkerSettings, WorkerTraits

Port = Annotated[int, Field(ge=1, le=65535)]
PortName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]

_HOST = "{host}"
_NAME = re.compile(
    r"(?!.{254})([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9_]([\w-]{0,62})\.?"
)
_SERVER = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")


class FoundTraits(WorkerTraits):
    """Traits known beforehand of workers that a source finds; as under `workers`, without `url`.

    `{host}` in the endpoints of `kv_events` is the host of each worker's address.
    """

    def worker_at(self, url: str) -> WorkerSettings:
        """Return the settings of the worker at `url`."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        host = URL(url).raw_host or ""
        if isinstance(self.kv_events, KvEventsConfig):
            given["kv_events"] = _publisher_at_host(self.kv_events, f"[{host}]" if ":" in host else host)
        return WorkerSettings.model_validate({"url": url, **given})


def _publisher_at_host(publisher: KvEventsConfig, host: str) -> KvEventsConfig:
    replay = publisher.replay_endpoint
    here = {
        "endpoint": publisher.endpoint.replace(_HOST, host),
        "replay_endpoint": replay and replay.replace(_HOST, host),
    }
    return publisher.model_copy(update=here)


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
    """With SRV records, which say the ports too, it begins with `_`: `_http._tcp.vllm-svc.ai`."""
    port: Port | None = None
    """Of all workers; needed unless SRV records say it."""
    scheme: Literal["http", "https"] = "http"
    """How its workers are called."""
    family: Literal["any", "ipv4", "ipv6"] = "any"
    """Which addresses are asked for. A worker with one of each kind is two workers, unless this is set."""
    servers: tuple[Annotated[str, AfterValidator(_check_server)], ...] = ()
    """Name servers; those of /etc/resolv.conf where none are given."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long they are asked, all of them together."""
    least_s: float = Field(default=1.0, gt=0)
    """A shorter time to live is taken for this."""
    most_s: float = Field(default=300.0, gt=0)
    """A longer one for this."""
    keep_s: float = Field(default=600.0, ge=0)
    """How long what was known holds when the name is gone, or nobody answers for it."""
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
    """Of the pods, or its name in the service. None: the only one, or that named `http`."""
    scheme: Literal["http", "https"] = "http"
    """How its workers are called."""
    server: Annotated[str, AfterValidator(_check_server_url)] | None = None
    """The API server. None: that of the cluster in which the gateway runs."""
    token_file: Path | None = None
    """Read again for each call. None: the service account's."""
    ca_file: Path | None = None
    """Of the API server's certificate. None: the service account's in the cluster, the system's elsewhere."""
    watch_s: float = Field(default=120.0, ge=1, le=3600)
    """After so long a watch is begun anew where the last one ended; a dead connection is noticed then."""
    worker: FoundTraits = FoundTraits()

    @model_validator(mode="after")
    def _check_token_transport(self) -> Self:
        if self.token_file is not None and (self.server or "").startswith("http://"):
            raise ValueError("token_file needs a server of https://, or everybody could read the token")
        return self


class RegistrationConfig(ConfigSection):
    """Workers that say themselves that they are there, by `POST /workers`."""

    ttl_s: float = Field(default=30.0, gt=0)
    """How long that holds where they do not say; they are to say it again about three times as often."""
    most_ttl_s: float = Field(default=3600.0, gt=0)
    """The longest that they may ask for."""

    @model_validator(mode="after")
    def _check_ttl_order(self) -> Self:
        if self.ttl_s > self.most_ttl_s:
            raise ValueError("ttl_s must not be longer than most_ttl_s")
        return self


class DiscoveryConfig(ConfigSection):
    """Sources of workers, beside `workers`. What they find comes and goes without a restart."""

    registration: RegistrationConfig = RegistrationConfig()
    dns: tuple[DnsConfig, ...] = ()
    kubernetes: tuple[KubernetesConfig, ...] = ()
