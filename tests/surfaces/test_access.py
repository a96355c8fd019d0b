"""Who may make administrative calls, from where."""

import pytest
from fastapi import Request

from radixway.config import GatewaySection
from radixway.pipeline import Unauthorized
from radixway.surfaces import AdminAccess

KEY = [(b"authorization", b"Bearer hush")]


def passes(host: str, headers=(), **section) -> bool:
    scope = {"type": "http", "client": (host, 1234), "headers": list(headers)}
    try:
        AdminAccess(GatewaySection(**section))(Request(scope))
    except Unauthorized:
        return False
    return True


def test_without_key_and_networks_only_this_machine_may_call():
    assert passes("127.0.0.1") and passes("::1")
    assert not passes("10.1.2.3")


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
    scope = {"type": "http", "client": ("10.1.2.3", 1), "headers": []}
    with pytest.raises(Unauthorized, match="gateway.admin_key or gateway.admin_networks"):
        AdminAccess(GatewaySection())(Request(scope))
