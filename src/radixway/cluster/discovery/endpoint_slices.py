"""Workers from EndpointSlices (`discovery.k8s.io/v1`), without any I/O.

An endpoint that is ready is a worker. One that terminates or is not ready drains: it gets nothing new and
keeps its place, and it is gone when it is in no slice any more.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from radixway.cluster.discovery.source import DiscoverySourceError, WorkerFactory
from radixway.routing import DiscoveredWorker

_KINDS = ("IPv4", "IPv6", "FQDN")
"""Address kinds in order of preference for pods with several."""


class ObjectMetadata(Struct, rename="camel"):
    """Metadata of every object and every list."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class EndpointConditions(Struct):
    """State of an endpoint; None where the cluster does not say."""

    ready: bool | None = None
    terminating: bool | None = None


class EndpointTarget(Struct):
    """The object behind an endpoint, most often a pod."""

    uid: str = ""


class PodEndpoint(Struct, rename="camel"):
    """A pod's endpoint; its addresses lead to the same place, and clients may use the first alone."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions | None = None
    target_ref: EndpointTarget | None = None

    @property
    def is_draining(self) -> bool:
        """Return whether it gets no new requests. A terminating one may be called ready, if its service
        wants it so."""
        conditions = self.conditions or EndpointConditions()
        return conditions.ready is False or conditions.terminating is True


class SlicePort(Struct):
    """A port of all endpoints of a slice."""

    name: str | None = None
    port: int | None = None


class EndpointSlice(Struct, rename="camel"):
    """Endpoints of a service with addresses of one kind."""

    metadata: ObjectMetadata
    address_type: str = "IPv4"
    endpoints: tuple[PodEndpoint, ...] | None = None
    ports: tuple[SlicePort, ...] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Unique."""
        return self.metadata.namespace, self.metadata.name


def workers_of_slices(
    slices: Iterable[EndpointSlice], wanted: int | str | None, worker_at: WorkerFactory
) -> list[DiscoveredWorker]:
    """The workers of all slices at the port `wanted`; an endpoint may be in several for a moment.

    Raises DiscoverySourceError.
    """
    found: list[DiscoveredWorker] = []
    kind_of: dict[tuple[str, int], str] = {}
    for each in sorted(slices, key=_address_type_rank):
        endpoints = [endpoint for endpoint in each.endpoints or () if endpoint.addresses]
        if not endpoints:
            continue
        port = _find_port(each, wanted)
        for endpoint in endpoints:
            uid = endpoint.target_ref.uid if endpoint.target_ref is not None else ""
            if uid and kind_of.setdefault((uid, port), each.address_type) != each.address_type:
                continue  # the same pod by its address of another kind
            found.append(DiscoveredWorker(worker_at(endpoint.addresses[0], port), endpoint.is_draining))
    return found


def _address_type_rank(each: EndpointSlice) -> int:
    return _KINDS.index(each.address_type) if each.address_type in _KINDS else len(_KINDS)


def _find_port(each: EndpointSlice, wanted: int | str | None) -> int:
    """Return the port. Raises DiscoverySourceError if it is ambiguous."""
    if isinstance(wanted, int):
        return wanted
    ports = {port.name or "": port.port for port in each.ports or () if port.port is not None}
    if wanted is None and len(ports) == 1:
        return next(iter(ports.values()))
    port = ports.get(wanted or "http")
    if port is None:
        namespace, name = each.key
        there = ", ".join(f"{name or 'without a name'} ({port})" for name, port in ports.items()) or "none"
        raise DiscoverySourceError(
            f"EndpointSlice {namespace}/{name} has ports {there}: say which one by port"
        )
    return port
