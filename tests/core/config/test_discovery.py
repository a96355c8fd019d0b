"""The `discovery` section: what cannot work is told by its key."""

import pytest

from radixway.core.config import ConfigError, load_config

NAMED = {"name": "vllm-svc.ai.svc.cluster.local", "port": 8000}


def load(**discovery):
    return load_config(overrides={"discovery": discovery}).discovery


def test_by_default_there_are_no_sources():
    assert load_config().discovery.dns == ()


@pytest.mark.parametrize("server", ["10.96.0.10", "10.96.0.10:5353", "[fd00::a]", "[fd00::a]:5353"])
def test_name_servers_are_addresses_with_or_without_a_port(server):
    assert load(dns=[{**NAMED, "servers": [server]}]).dns[0].servers == (server,)


@pytest.mark.parametrize(
    ("dns", "why"),
    [
        ({"name": "vllm-svc"}, "give port, or a name of SRV records"),
        ({"name": "_http._tcp.vllm-svc", "port": 8000}, "give port, or a name of SRV records"),
        ({"name": "not a name", "port": 8000}, r"\.name: 'not a name' is no DNS name"),
        ({"name": "x" * 64 + ".test", "port": 8000}, "is no DNS name"),
        ({**NAMED, "servers": ["ns.test"]}, "'ns.test' is no name server: give its address"),
        ({**NAMED, "servers": ["10.0.0.1:0"]}, "is no name server"),
        ({**NAMED, "least_s": 10, "most_s": 5}, "most_s must not be shorter"),
        ({**NAMED, "worker": {"url": "http://a"}}, r"worker\.url"),
        ({**NAMED, "worker": {"role": "prefill"}}, "role prefill needs disaggregation"),
    ],
)
def test_what_cannot_work_is_told_by_its_key(dns, why):
    with pytest.raises(ConfigError, match=rf"discovery\.dns\.0.*{why}"):
        load(dns=[dns])


@pytest.mark.parametrize(
    ("kubernetes", "why"),
    [
        ({"selector": " "}, "selector: give a label selector"),
        ({"namespace": "Not One"}, "namespace"),
        ({"port": 0}, "port"),
        ({"port": "Not a name"}, "port"),
        ({"server": "kubernetes.default"}, r"server: this must be http\(s\)://HOST:PORT"),
        ({"server": "http://host", "token_file": "/t"}, " token_file needs a server of https"),
        ({"server": "https://user:hush@host"}, r"server: this must be http\(s\)://HOST:PORT"),
    ],
)
def test_what_cannot_be_watched_is_told_by_its_key(kubernetes, why):
    with pytest.raises(ConfigError, match=rf"discovery\.kubernetes\.0[.:]{why}") as told:
        load(kubernetes=[kubernetes])
    assert "hush" not in str(told.value)


def test_ports_are_numbers_or_names():
    given = load(kubernetes=[{"port": "http"}, {"port": 8000}, {"namespace": "*"}]).kubernetes
    assert [each.port for each in given] == ["http", 8000, None]


def test_the_default_lease_is_not_longer_than_the_longest():
    with pytest.raises(ConfigError, match=r"discovery\.registration: .*ttl_s must not be longer"):
        load(registration={"ttl_s": 60, "most_ttl_s": 30})
