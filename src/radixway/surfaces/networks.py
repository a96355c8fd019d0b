"""Which network a client calls from."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address


def is_in_networks(host: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether the address is of one of the networks; one of IPv4 written as IPv6 counts as what it is."""
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)
