"""A source of workers: the addresses of a DNS name, resolved again when their TTL is over."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV

from radixway.cluster.discovery.source import DiscoverySourceError, ReportWorkers, make_worker_factory
from radixway.core.config import DnsConfig
from radixway.routing import DiscoveredWorker

_TYPES = {"any": ("A", "AAAA"), "ipv4": ("A",), "ipv6": ("AAAA",)}
_MAX_CONCURRENT_TARGETS = 16
"""SRV targets resolved at a time."""


class NameNotFoundError(DiscoverySourceError):
    """The name does not exist, or has no addresses; `retry_after_s` is how long that holds."""


DnsAnswer = tuple[list[tuple[str, int]], float]
"""Hosts and ports of a name, and their time to live in seconds.

A host is an address; of SRV records with https the target's name, which is what certificates name.
"""


class DnsLookup:
    """Resolves one name. Truncated answers are requested again over TCP; CNAMEs are followed."""

    def __init__(self, config: DnsConfig) -> None:
        """Reads /etc/resolv.conf unless name servers are given. Raises DiscoverySourceError."""
        self._config = config
        self._types = _TYPES[config.family]
        try:
            self._resolver = dns.asyncresolver.Resolver(configure=not config.servers)
        except dns.exception.DNSException as error:
            raise DiscoverySourceError(f"name servers: {error}") from None
        if config.servers:
            self._resolver.nameservers = [_parse_name_server(server) for server in config.servers]
        self._at_a_time = asyncio.Semaphore(_MAX_CONCURRENT_TARGETS)

    async def resolve_name(self) -> DnsAnswer:
        """Return the name's records. Raises NameNotFoundError, or DiscoverySourceError without an answer."""
        config = self._config
        if config.port is None:
            return await self._resolve_srv()
        addresses, ttl_s = await self._resolve_addresses(config.name)
        return [(address, config.port) for address in addresses], ttl_s

    async def _resolve_srv(self) -> DnsAnswer:
        answer = await self._query_records(self._config.name, "SRV")
        targets = [(record.target, record.port) for record in answer.rrset or () if isinstance(record, SRV)]
        targets = [(target, port) for target, port in targets if target != dns.name.root]  # RFC 2782: none
        if not targets:
            raise _not_found_error(f"{self._config.name} has no SRV records", answer)
        ttl_s: float = answer.chaining_result.minimum_ttl
        if self._config.scheme == "https":
            places = [(target.to_text(omit_final_dot=True), port) for target, port in targets]
        else:
            found = await asyncio.gather(*(self._resolve_target(target, answer) for target, _ in targets))
            hosts = zip(targets, found, strict=True)
            places = [(host, port) for (_, port), (addresses, _) in hosts for host in addresses]
            ttl_s = min(ttl_s, *(each_s for _, each_s in found))
        if not places:
            raise _not_found_error(f"no target of {self._config.name} has an address", answer)
        return places, ttl_s

    async def _resolve_target(
        self, target: dns.name.Name, answer: dns.resolver.Answer
    ) -> tuple[list[str], float]:
        """Return the addresses of an SRV target and their TTL; none if it is gone."""
        additional = [rrset for rrset in answer.response.additional if rrset.name == target]
        addresses = [host for rrset in additional for host in _record_hosts(rrset, self._types)]
        if addresses:
            return addresses, min(rrset.ttl for rrset in additional)
        async with self._at_a_time:
            try:
                return await self._resolve_addresses(target.to_text())
            except NameNotFoundError as absent:
                return [], absent.retry_after_s or 0.0

    async def _resolve_addresses(self, name: str) -> tuple[list[str], float]:
        """Return all addresses of a name and their shortest TTL."""
        answers = await asyncio.gather(*(self._query_records(name, kind) for kind in self._types))
        hosts = [host for answer in answers for host in _record_hosts(answer.rrset or (), self._types)]
        if not hosts:
            raise _not_found_error(f"{name} has no addresses", *answers)
        return hosts, min(answer.chaining_result.minimum_ttl for answer in answers if answer.rrset)

    async def _query_records(self, name: str, kind: str) -> dns.resolver.Answer:
        try:
            return await self._resolver.resolve(
                name, kind, raise_on_no_answer=False, search=True, lifetime=self._config.timeout_s
            )
        except dns.resolver.NXDOMAIN as error:
            responses = error.kwargs["responses"].values()
            ttl_s = min((each.resolve_chaining().minimum_ttl for each in responses), default=None)
            raise NameNotFoundError(f"there is no name {name}", retry_after_s=ttl_s) from None
        except (dns.exception.DNSException, OSError) as error:
            raise DiscoverySourceError(f"{kind} of {name}: {error}") from None


def _record_hosts(records: Iterable[object], types: tuple[str, ...]) -> list[str]:
    return [
        record.address
        for record in records
        if isinstance(record, A | AAAA) and dns.rdatatype.to_text(record.rdtype) in types
    ]


def _not_found_error(why: str, *answers: dns.resolver.Answer) -> NameNotFoundError:
    return NameNotFoundError(why, retry_after_s=min(answer.chaining_result.minimum_ttl for answer in answers))


def _parse_name_server(server: str) -> dns.nameserver.Nameserver:
    found = re.fullmatch(r"\[?(.+?)\]?(?::(\d+))?", server)
    assert found is not None  # the configuration has been checked
    return dns.nameserver.Do53Nameserver(found[1], int(found[2] or 53))


class DnsSource:
    """Follows one name. Known workers are kept for `keep_s` while the name is gone or not answered.

    A restarted name server, or a service that is applied again, is no reason to leave workers that
    answer; those that do not are found out by their health checks.
    """

    def __init__(
        self,
        config: DnsConfig,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        port = "" if config.port is None else f":{config.port}"
        self.name = f"dns {config.name}{port}"
        self._config = config
        self._worker_at = make_worker_factory(config.scheme, config.worker)
        self._clock = clock
        self._sleep = sleep
        self._answered_at: float | None = None
        """When workers were last found; None once they have been dropped."""

    async def follow_workers(self, tell: ReportWorkers) -> None:
        lookup = DnsLookup(self._config)
        while True:
            try:
                places, ttl_s = await lookup.resolve_name()
            except DiscoverySourceError:
                self._drop_expired(tell)
                raise
            self._answered_at = self._clock()
            tell([DiscoveredWorker(self._worker_at(host, port)) for host, port in places])
            await self._sleep(min(max(ttl_s, self._config.least_s), self._config.most_s))

    def _drop_expired(self, tell: ReportWorkers) -> None:
        answered_at = self._answered_at
        if answered_at is not None and self._clock() - answered_at >= self._config.keep_s:
            self._answered_at = None
            tell(())
