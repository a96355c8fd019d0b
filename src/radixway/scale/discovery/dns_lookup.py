"""What name servers answer for a name, once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV

from radixway.config import DnsSection
from radixway.scale.discovery.source import SourceFailed

_TYPES = {"any": ("A", "AAAA"), "ipv4": ("A",), "ipv6": ("AAAA",)}
_MOST_AT_A_TIME = 16
"""Targets of SRV records that are asked for at a time."""


class NameAbsent(SourceFailed):
    """There is no such name, or none with addresses; `retry_after_s` says for how long that is certain."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker is."""

    host: str
    """An address; of SRV records with https the target's name, which is what certificates name."""
    port: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name stands for, and how long that may be believed."""

    places: tuple[Place, ...]
    ttl_s: float


class Lookup:
    """Asks for one name. Truncated answers are asked for again over TCP; CNAMEs are followed."""

    def __init__(self, config: DnsSection) -> None:
        """Reads /etc/resolv.conf unless name servers are given. Raises SourceFailed."""
        self._config = config
        self._types = _TYPES[config.family]
        try:
            self._resolver = dns.asyncresolver.Resolver(configure=not config.servers)
        except dns.exception.DNSException as error:
            raise SourceFailed(f"name servers: {error}") from None
        if config.servers:
            self._resolver.nameservers = [_name_server(server) for server in config.servers]
        self._at_a_time = asyncio.Semaphore(_MOST_AT_A_TIME)

    async def ask(self) -> Answer:
        """Raises NameAbsent; SourceFailed where nobody could say."""
        config = self._config
        if config.port is None:
            return await self._ask_srv()
        addresses, ttl_s = await self._addresses(config.name)
        return Answer(tuple(Place(address, config.port) for address in addresses), ttl_s)

    async def _ask_srv(self) -> Answer:
        answer = await self._resolve(self._config.name, "SRV")
        targets = [(record.target, record.port) for record in answer.rrset or () if isinstance(record, SRV)]
        targets = [(target, port) for target, port in targets if target != dns.name.root]  # RFC 2782: none
        if not targets:
            raise _absent(f"{self._config.name} has no SRV records", answer)
        ttl_s: float = answer.chaining_result.minimum_ttl
        if self._config.scheme == "https":
            places = [Place(target.to_text(omit_final_dot=True), port) for target, port in targets]
        else:
            found = await asyncio.gather(*(self._of_target(target, answer) for target, _ in targets))
            hosts = zip(targets, found, strict=True)
            places = [Place(host, port) for (_, port), (addresses, _) in hosts for host in addresses]
            ttl_s = min(ttl_s, *(each_s for _, each_s in found))
        if not places:
            raise _absent(f"no target of {self._config.name} has an address", answer)
        return Answer(tuple(places), ttl_s)

    async def _of_target(self, target: dns.name.Name, answer: dns.resolver.Answer) -> tuple[list[str], float]:
        """Addresses of an SRV target, and their time to live; none if it is gone already."""
        told = [rrset for rrset in answer.response.additional if rrset.name == target]
        addresses = [host for rrset in told for host in _hosts(rrset, self._types)]
        if addresses:
            return addresses, min(rrset.ttl for rrset in told)
        async with self._at_a_time:
            try:
                return await self._addresses(target.to_text())
            except NameAbsent as absent:
                return [], absent.retry_after_s or 0.0

    async def _addresses(self, name: str) -> tuple[list[str], float]:
        """All addresses of a name, and the shortest time that they live."""
        answers = await asyncio.gather(*(self._resolve(name, kind) for kind in self._types))
        hosts = [host for answer in answers for host in _hosts(answer.rrset or (), self._types)]
        if not hosts:
            raise _absent(f"{name} has no addresses", *answers)
        return hosts, min(answer.chaining_result.minimum_ttl for answer in answers if answer.rrset)

    async def _resolve(self, name: str, kind: str) -> dns.resolver.Answer:
        try:
            return await self._resolver.resolve(
                name, kind, raise_on_no_answer=False, search=True, lifetime=self._config.timeout_s
            )
        except dns.resolver.NXDOMAIN as error:
            responses = error.kwargs["responses"].values()
            ttl_s = min((each.resolve_chaining().minimum_ttl for each in responses), default=None)
            raise NameAbsent(f"there is no name {name}", retry_after_s=ttl_s) from None
        except (dns.exception.DNSException, OSError) as error:
            raise SourceFailed(f"{kind} of {name}: {error}") from None


def _hosts(records: Iterable[object], types: tuple[str, ...]) -> list[str]:
    return [
        record.address
        for record in records
        if isinstance(record, A | AAAA) and dns.rdatatype.to_text(record.rdtype) in types
    ]


def _absent(why: str, *answers: dns.resolver.Answer) -> NameAbsent:
    return NameAbsent(why, retry_after_s=min(answer.chaining_result.minimum_ttl for answer in answers))


def _name_server(server: str) -> dns.nameserver.Nameserver:
    found = re.fullmatch(r"\[?(.+?)\]?(?::(\d+))?", server)
    assert found is not None  # the configuration has been checked
    return dns.nameserver.Do53Nameserver(found[1], int(found[2] or 53))
