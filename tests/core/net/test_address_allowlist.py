"""Which addresses may be called for somebody who is not trusted."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from radixway.core.net import AddressAllowlist
from radixway.core.net.fetcher import is_public


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_unicast_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.251",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
    ],
)
def test_addresses_for_other_uses_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        "::127.0.0.1",
    ],
)
def test_an_address_that_carries_a_private_one_is_as_private(address: str) -> None:
    assert not is_public(ip_address(address))


def test_what_is_allowed_besides_is_allowed_in_every_spelling() -> None:
    allowed = AddressAllowlist(["10.1.0.0/16"])
    assert allowed("10.1.2.3") and allowed("::ffff:10.1.2.3")
    assert not allowed("10.2.0.1") and not allowed("fe80::1%eth0") and not allowed("localhost")
