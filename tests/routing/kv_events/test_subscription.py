"""Where events are heard: what operators write, what workers tell, and what is of no use from here."""

import json

import pytest

from radixway.core.config import KvEventsConfig
from radixway.routing.kv_events import PublisherUnreachableError, read_publisher_config
from radixway.routing.kv_events.subscription import PublisherAddress, publisher_addresses

HERE, THERE = "http://127.0.0.1:8000", "http://gpu7:8000"


def ours(endpoint, replay=None, **more):
    return {"kv_events": {"endpoint": endpoint, "replay_endpoint": replay, "topic": "", "binds": True} | more}


def sglangs(**config):
    return {"kv_events_config": json.dumps({"publisher": "zmq"} | config), "dp_size": 2}


@pytest.mark.parametrize("any_host", ["*", "0.0.0.0", "[::]"])
def test_a_wildcard_is_the_workers_own_host(any_host):
    info = ours(f"tcp://{any_host}:5557", f"tcp://{any_host}:5558", topic="kv")
    assert read_publisher_config(info, THERE) == KvEventsConfig(
        endpoint="tcp://gpu7:5557", replay_endpoint="tcp://gpu7:5558", topic="kv"
    )
    assert read_publisher_config(info, "http://[fd00::7]:8000").endpoint == "tcp://[fd00::7]:5557"


def test_sockets_and_loopback_ports_are_for_workers_on_this_machine():
    for endpoint in ("ipc:///tmp/e", "tcp://127.0.0.1:40001"):
        assert read_publisher_config(ours(endpoint), HERE) == KvEventsConfig(endpoint=endpoint)
        with pytest.raises(PublisherUnreachableError, match="machine"):
            read_publisher_config(ours(endpoint), THERE)


def test_a_publisher_that_connects_needs_the_operators_word():
    with pytest.raises(PublisherUnreachableError, match="connects to tcp://router:5557"):
        read_publisher_config(ours("tcp://router:5557", binds=False), THERE)
    with pytest.raises(PublisherUnreachableError, match="connects to tcp://router:5557"):
        read_publisher_config(sglangs(endpoint="tcp://router:5557"), THERE)


def test_sglang_repeats_its_option():
    assert read_publisher_config(sglangs(), THERE) == KvEventsConfig(endpoint="tcp://gpu7:5557")
    info = sglangs(endpoint="tcp://*:6000", replay_endpoint="tcp://*:6100", topic="kv")
    assert read_publisher_config(info | {"enable_dp_attention": True}, THERE) == KvEventsConfig(
        endpoint="tcp://gpu7:6000", replay_endpoint="tcp://gpu7:6100", topic="kv", ranks=2
    )


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"kv_events": None},
        {"kv_events_config": None},
        {"kv_events_config": "{"},
        {"kv_events_config": '{"publisher": "null"}'},
        {"kv_events_config": "[1]"},
    ],
)
def test_most_workers_tell_of_no_publisher(info):
    assert read_publisher_config(info, THERE) is None


@pytest.mark.parametrize(
    "info",
    [
        ours(5),
        ours("tcp://*:5557", 7),
        ours("udp://x"),
        ours("tcp://*:99999"),
        ours("tcp://*:5557", topic=[1]),
        sglangs(endpoint=7),
    ],
)
def test_nonsense_of_a_worker_is_told_in_words(info):
    with pytest.raises(
        PublisherUnreachableError, match="what it tells of its publisher|its publisher connects"
    ):
        read_publisher_config(info, THERE)


def test_ranks_count_their_ports_up():
    section = KvEventsConfig(endpoint="tcp://h:5557", replay_endpoint="tcp://h:5600", topic="t", ranks=2)
    assert publisher_addresses(section) == [
        PublisherAddress("tcp://h:5557", "tcp://h:5600", "t", binds=False),
        PublisherAddress("tcp://h:5558", "tcp://h:5601", "t", binds=False),
    ]


def test_an_operators_wildcard_is_listened_at():
    assert publisher_addresses(KvEventsConfig(endpoint="tcp://*:5557"))[0].binds
    assert not publisher_addresses(KvEventsConfig(endpoint="tcp://[::1]:5557"))[0].binds
