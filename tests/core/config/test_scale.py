"""The `scale` section: two ways to hear of each other, and one of them."""

import pytest

from radixway.core.config import ConfigError, load_config

ZMQ = {"bind": "tcp://10.0.0.1:5560", "peers": ["tcp://10.0.0.2:5560"]}


def load(**sync):
    return load_config(overrides={"scale": {"sync": sync}}).scale.sync


def test_by_default_gateways_tell_each_other_nothing():
    assert load_config().scale.sync is None


def test_over_zeromq_with_peers_and_over_redis_without():
    assert load(**ZMQ).peers == ("tcp://10.0.0.2:5560",)
    assert load(bind="ipc:///run/one", peers=["ipc:///run/two"]).bind == "ipc:///run/one"
    assert load(bind="tcp://*:5560", peers=["tcp://[::1]:5560"]).bind == "tcp://*:5560"
    assert load(redis="redis://host:6379/0").channel == "radixway.load"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("valkey://host:1/2", "redis://host:1/2"),
        ("valkeys://host", "rediss://host"),
        ("unix:///s", "unix:///s"),
    ],
)
def test_valkey_is_spelled_like_redis(given, taken):
    assert load(redis=given).redis.get_secret_value() == taken


def test_passwords_and_keys_are_not_shown():
    shown = repr(load(redis="redis://:secret@host", key="sixteen characters"))
    assert "secret" not in shown and "sixteen" not in shown


@pytest.mark.parametrize(
    ("sync", "why"),
    [
        ({}, "give either redis, or bind and peers, or ray: true"),
        ({**ZMQ, "redis": "redis://host"}, "give either redis, or bind and peers, or ray: true"),
        ({"redis": "redis://host", "peers": ["tcp://h:1"]}, "peers belong to bind"),
        ({"bind": "tcp://h:1"}, "bind needs peers"),
        ({**ZMQ, "bind": "10.0.0.1:5560"}, "no ZeroMQ endpoint"),
        ({**ZMQ, "bind": "tcp://h:70000"}, "no ZeroMQ endpoint"),
        ({**ZMQ, "peers": ["tcp://*:5560"]}, "cannot be connected to"),
        ({**ZMQ, "peers": ["tcp://h:*"]}, "cannot be connected to"),
        ({"redis": "http://host"}, "this must be redis://"),
        ({**ZMQ, "key": "short"}, "at least 16"),
        ({**ZMQ, "heartbeat_s": 4.0}, "forget_after_s must be longer"),
    ],
)
def test_what_cannot_work_is_told_by_its_key(sync, why):
    with pytest.raises(ConfigError, match=rf"scale\.sync.*{why}"):
        load(**sync)
