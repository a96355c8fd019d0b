"""Where a worker publishes its KV events, by configuration or its `/server_info`, and how patient we are."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec
from pydantic import ValidationError
from yarl import URL

from radixway.core.config import KvEventsConfig

_ANY_HOST = ("*", "0.0.0.0", "[::]")
_SGLANGS_ENDPOINT = "tcp://*:5557"


@dataclass(frozen=True, slots=True)
class PublisherAddress:
    """The sockets of one publisher."""

    endpoint: str
    replay_endpoint: str | None
    topic: str
    binds: bool
    """The publisher connects to us."""


def publisher_addresses(section: KvEventsConfig) -> list[PublisherAddress]:
    """Return an address for each data-parallel rank."""
    return [
        PublisherAddress(
            endpoint=_offset_port(section.endpoint, rank),
            replay_endpoint=section.replay_endpoint and _offset_port(section.replay_endpoint, rank),
            topic=section.topic,
            binds=section.endpoint.removeprefix("tcp://").rpartition(":")[0] in _ANY_HOST,
        )
        for rank in range(section.ranks)
    ]


class PublisherUnreachableError(ValueError):
    """The worker publishes at an address that cannot be reached from here; the message says why."""


def read_publisher_config(info: Mapping[str, Any], worker_url: str) -> KvEventsConfig | None:
    """The publisher that a worker's `/server_info` names, as reachable from here; None if it names none.

    Raises PublisherUnreachableError.
    """
    ours, sglangs = info.get("kv_events"), _parse_sglang_config(info.get("kv_events_config"))
    if isinstance(ours, dict):
        publisher, bound, ranks = ours, bool(ours.get("binds", True)), 1
    elif sglangs is not None:
        publisher, size = {"endpoint": _SGLANGS_ENDPOINT} | sglangs, info.get("dp_size")
        bound = isinstance(publisher["endpoint"], str) and _is_bound_here(publisher["endpoint"])
        ranks = size if info.get("enable_dp_attention") and isinstance(size, int) else 1
    else:
        return None
    endpoint, replay = publisher.get("endpoint"), publisher.get("replay_endpoint")
    if not isinstance(endpoint, str) or not isinstance(replay, str | None):
        raise PublisherUnreachableError("what it tells of its publisher cannot be read")
    if not bound:
        raise PublisherUnreachableError(
            f"its publisher connects to {endpoint}; to listen there give the worker "
            "kv_events: {endpoint: tcp://*:PORT}"
        )
    try:
        return KvEventsConfig(
            endpoint=_resolve_endpoint(endpoint, worker_url),
            replay_endpoint=_resolve_endpoint(replay, worker_url) if replay else None,
            topic=publisher.get("topic") or "",
            ranks=ranks,
        )
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise PublisherUnreachableError(f"what it tells of its publisher is of no use: {what}") from None


def _parse_sglang_config(config: Any) -> dict[str, Any] | None:
    """Parse SGLang's JSON option, which may repeat."""
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except (msgspec.DecodeError, RecursionError):
            return None
    return config if isinstance(config, dict) and config.get("publisher") == "zmq" else None


def _resolve_endpoint(endpoint: str, worker_url: str) -> str:
    """A wildcard is the worker's own host, and so is loopback if the worker is here."""
    worker_host = URL(worker_url).host or ""
    is_here = _is_loopback(worker_host)
    if endpoint.startswith("ipc://") and not is_here:
        raise PublisherUnreachableError(f"it publishes at {endpoint}, which is on another machine")
    if not endpoint.startswith("tcp://"):
        return endpoint
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if host in _ANY_HOST:
        host = f"[{worker_host}]" if ":" in worker_host else worker_host
    elif _is_loopback(host.strip("[]")) and not is_here:
        raise PublisherUnreachableError(f"it publishes at {endpoint}, for its own machine only")
    return f"tcp://{host}:{port}"


def _is_bound_here(endpoint: str) -> bool:
    """Return whether the publisher binds, by vLLM's rule, which SGLang follows."""
    return "*" in endpoint or "::" in endpoint or endpoint.startswith("ipc://")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _offset_port(endpoint: str, rank: int) -> str:
    if not rank:
        return endpoint
    start, _, port = endpoint.rpartition(":")
    return f"{start}:{int(port) + rank}"


@dataclass(frozen=True, slots=True)
class SubscriptionTimeouts:
    """Seconds."""

    quiet_s: float = 5.0
    """Silence after which a replay checks that no message was lost."""
    away_s: float = 5.0
    """A publisher that is away for longer may have lost everything."""
    silent_s: float = 5.0
    """A replay in which nothing comes for so long has failed."""
    replay_s: float = 60.0
    """The longest that a replay may take."""
    retry_s: float = 1.0
    """Pause after the first replay that failed; doubled each time."""
