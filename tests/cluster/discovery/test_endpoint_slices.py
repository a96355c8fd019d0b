"""What EndpointSlices say of workers."""

import msgspec
import pytest

from radixway.cluster.discovery import DiscoverySourceError
from radixway.cluster.discovery.endpoint_slices import EndpointSlice, workers_of_slices
from radixway.cluster.discovery.source import make_worker_factory
from radixway.core.config import FoundTraits


def one(*endpoints, ports=(("http", 8000),), kind="IPv4", name="x"):
    """A slice as the API server writes it."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ai"},
            "addressType": kind,
            "endpoints": endpoints,
            "ports": [{"name": name, "port": port} for name, port in ports],
        },
        EndpointSlice,
    )


def endpoint(address, uid=None, **conditions):
    target = {"targetRef": {"uid": uid}} if uid else {}
    return {"addresses": [address], "conditions": conditions} | target


def workers(*slices, port=None):
    found = workers_of_slices(slices, port, make_worker_factory("http", FoundTraits()))
    return [(each.section.url, "draining" if each.draining else "ready") for each in found]


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, "ready"),
        ({"ready": None}, "ready"),
        ({"ready": True, "serving": True, "terminating": False}, "ready"),
        ({"ready": False, "serving": False, "terminating": False}, "draining"),
        ({"ready": False, "serving": True, "terminating": True}, "draining"),
        ({"ready": False, "serving": False, "terminating": True}, "draining"),
        ({"ready": True, "serving": True, "terminating": True}, "draining"),
    ],
)
def test_who_is_ready_and_does_not_terminate_gets_requests(conditions, state):
    assert workers(one(endpoint("10.0.0.1", **conditions))) == [("http://10.0.0.1:8000", state)]


def test_a_pod_of_two_families_is_one_worker():
    slices = [
        one(endpoint("fd00::1", uid="pod"), endpoint("fd00::2", uid="only"), kind="IPv6", name="six"),
        one(endpoint("10.0.0.1", uid="pod")),
    ]
    assert workers(*slices) == [("http://10.0.0.1:8000", "ready"), ("http://[fd00::2]:8000", "ready")]


def test_two_ports_of_a_pod_are_two_workers():
    slices = [
        one(endpoint("10.0.0.1", uid="pod"), ports=[("", port)], name=str(port)) for port in (8000, 8001)
    ]
    assert [url for url, _ in workers(*slices)] == ["http://10.0.0.1:8000", "http://10.0.0.1:8001"]


@pytest.mark.parametrize(
    ("ports", "wanted", "found"),
    [
        ([("", 8000)], None, 8000),
        ([("grpc", 9000)], None, 9000),
        ([("metrics", 9100), ("http", 8000)], None, 8000),
        ([("metrics", 9100), ("api", 8000)], "api", 8000),
        ([], 8080, 8080),
        ([("http", 8000)], 8080, 8080),
    ],
)
def test_the_port_is_the_one_that_is_meant(ports, wanted, found):
    assert workers(one(endpoint("10.0.0.1"), ports=ports), port=wanted) == [
        (f"http://10.0.0.1:{found}", "ready")
    ]


@pytest.mark.parametrize(
    ("ports", "wanted", "there"),
    [
        ([("metrics", 9100), ("api", 8000)], None, r"metrics \(9100\), api \(8000\)"),
        ([("http", 8000)], "api", r"http \(8000\)"),
        ([], None, "none"),
    ],
)
def test_where_none_is_meant_that_is_told(ports, wanted, there):
    with pytest.raises(
        DiscoverySourceError, match=f"EndpointSlice ai/x has ports {there}: say which one by port"
    ):
        workers(one(endpoint("10.0.0.1"), ports=ports), port=wanted)


def test_a_slice_without_endpoints_needs_no_port():
    assert workers(one(ports=[])) == []


def test_what_is_no_address_is_a_failure_of_the_source():
    with pytest.raises(DiscoverySourceError, match="is no worker's address"):
        workers(one(endpoint("not an address"), kind="FQDN"))
