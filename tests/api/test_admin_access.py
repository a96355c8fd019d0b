"""Who may make administrative calls, from where."""

import pytest
from fastapi import Request

from radixway.api import AdminAccess
from radixway.core.config import GatewayConfig
from radixway.core.pipeline import UnauthorizedError

KEY = [(b"authorization", b"Bearer hush")]
CALL = {"type": "http", "method": "POST", "path": "/add_worker"}


def passes(host: str, headers=(), **section) -> bool:
    scope = {**CALL, "client": (host, 1234), "headers": list(headers)}
    try:
        AdminAccess(GatewayConfig(**section))(Request(scope))
    except UnauthorizedError:
        return False
    return True


def test_without_key_and_networks_only_this_machine_may_call():
    assert passes("127.0.0.1") and passes("::1")
    assert not passes("10.1.2.3")


@pytest.mark.parametrize(
    "name", ["localhost:30000", "127.0.0.1:30000", "[::1]:30000", "a.localhost", "gateway:80", "", "["]
)
def test_without_a_key_it_answers_to_this_machines_names(name):
    assert passes("127.0.0.1", [(b"host", name.encode())])


@pytest.mark.parametrize(
    "name", ["rebound.example:30000", "127.0.0.1.rebound.example", "LOCALHOST.rebound.example."]
)
def test_a_page_whose_name_was_led_to_this_machine_is_no_administrator(name):
    headers = [(b"host", name.encode())]
    assert not passes("127.0.0.1", headers)
    assert passes("127.0.0.1", [*headers, *KEY], admin_key="hush")
    assert passes("127.0.0.1", headers, admin_networks=["127.0.0.0/8"])


def test_who_is_refused_for_a_name_is_told_so():
    scope = {**CALL, "client": ("127.0.0.1", 1), "headers": [(b"host", b"rebound.example:30000")]}
    with pytest.raises(
        UnauthorizedError, match="'rebound.example', under which this call came: ask at localhost"
    ):
        AdminAccess(GatewayConfig())(Request(scope))


def test_a_configured_network_needs_no_key():
    networks = {"admin_networks": ["10.0.0.0/8", "fd00::/8"]}
    for section in (networks, networks | {"admin_key": "hush"}):
        assert passes("10.1.2.3", **section)
        assert passes("::ffff:10.1.2.3", **section)
        assert passes("fd00::1", **section)
        assert not passes("192.168.0.1", **section)


def test_with_a_key_whoever_is_outside_of_the_networks_needs_it():
    section = {"admin_networks": ["10.0.0.0/8"], "admin_key": "hush"}
    assert not passes("127.0.0.1", **section)
    assert passes("127.0.0.1", KEY, **section)
    assert passes("192.168.0.1", KEY, **section)


def test_a_refusal_says_what_would_help():
    scope = {**CALL, "client": ("10.1.2.3", 1), "headers": []}
    with pytest.raises(UnauthorizedError, match="gateway.admin_key or gateway.admin_networks"):
        AdminAccess(GatewayConfig())(Request(scope))
