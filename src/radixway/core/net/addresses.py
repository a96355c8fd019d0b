"""Addresses that may be called for a client that is not trusted.

Sources: the IANA special-purpose address registries (as `ipaddress` has them), RFC 6052 and RFC 3056 for
addresses of IPv6 that carry one of IPv4.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_UNICAST = IPv6Network("2000::/3")
"""What IPv6 has assigned for the public so far."""
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return whether it is a unicast address of the public internet, all the way down.

    An address of IPv6 that carries one of IPv4 is as public as that one.
    """
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    carried = embedded_ipv4_address(address)
    if carried is not None:
        return is_public(carried)
    return address in _UNICAST and address.is_global


def embedded_ipv4_address(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that packets to this one end up at, or may: mapped, NAT64, 6to4, Teredo."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.sixtofour


class AddressAllowlist:
    """Public addresses, and networks that somebody who runs this allows besides."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks`: such as `10.1.0.0/16` or a single address. Raises ValueError."""
        self._networks: tuple[Network, ...] = tuple(ip_network(network) for network in networks)

    def __call__(self, host: str) -> bool:
        """Return whether it may be called. `host`: an address in digits, with its zone where it has one."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return is_public(address) or any(address in network for network in self._networks)
