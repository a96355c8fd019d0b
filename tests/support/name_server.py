"""A name server on loopback, over UDP and TCP, whose answers the test changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dnslib import AAAA, QTYPE, RCODE, RR, SOA, SRV, A, DNSRecord

MOST_OVER_UDP = 512
NEGATIVE_TTL_S = 7


def address_record(name: str, address: str, ttl: int = 0) -> RR:
    """A or AAAA."""
    if ":" in address:
        return RR(name, QTYPE.AAAA, rdata=AAAA(address), ttl=ttl)
    return RR(name, QTYPE.A, rdata=A(address), ttl=ttl)


@dataclass
class NameServer:
    """Authoritative for everything: what is not in `records` does not exist."""

    records: dict[str, list[RR]] = field(default_factory=dict)
    """By name, without the last dot."""
    additional: dict[str, list[RR]] = field(default_factory=dict)
    """By target of SRV records, what goes with them."""
    fails_with: str | None = None
    """`SERVFAIL`, `REFUSED` …: the code of every answer."""
    silent: bool = False
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, type, and `udp` or `tcp`."""
    address: str = ""
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def set(self, name: str, *addresses: str, ttl: int = 0) -> None:
        """`name` has these addresses now, of either kind; an empty name exists all the same."""
        self.records[name] = [address_record(name, each, ttl) for each in addresses]

    def set_srv(self, name: str, *targets: tuple[str, int], ttl: int = 0) -> None:
        """`name` has SRV records with these targets and ports."""
        self.records[name] = [
            RR(name, QTYPE.SRV, rdata=SRV(0, 0, port, target), ttl=ttl) for target, port in targets
        ]

    async def until_asked(self, times: int) -> None:
        """Wait for so many more questions."""
        wanted = len(self.asked) + times
        async with self._news, asyncio.timeout(10):
            await self._news.wait_for(lambda: len(self.asked) >= wanted)

    async def answer(self, data: bytes, over: str) -> bytes | None:
        question = DNSRecord.parse(data)
        name, kind = str(question.q.qname).rstrip("."), QTYPE[question.q.qtype]
        async with self._news:
            self.asked.append((name, kind, over))
            self._news.notify_all()
        if self.silent:
            return None
        reply = question.reply()
        if self.fails_with is not None:
            reply.header.rcode = getattr(RCODE, self.fails_with)
        elif name not in self.records:
            reply.header.rcode = RCODE.NXDOMAIN
        wanted = (kind, "CNAME")
        reply.add_answer(*(record for record in self.records.get(name, ()) if QTYPE[record.rtype] in wanted))
        if not reply.rr:
            times = (1, 60, 60, 60, NEGATIVE_TTL_S)
            reply.add_auth(RR(".", QTYPE.SOA, rdata=SOA("ns.test", "admin.test", times), ttl=60))
        for record in reply.rr:
            if kind == "SRV":
                reply.add_ar(*self.additional.get(str(record.rdata.target).rstrip("."), ()))
        packed = reply.pack()
        if over == "tcp" or len(packed) <= MOST_OVER_UDP:
            return packed
        truncated = question.reply()
        truncated.header.tc = 1
        return truncated.pack()


class _OverUdp(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr) -> None:
        task = asyncio.create_task(self._reply(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, data: bytes, addr) -> None:
        if (reply := await self._server.answer(data, "udp")) is not None:
            self._transport.sendto(reply, addr)


@asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    """One that listens on the same port over both."""
    server = NameServer()

    async def over_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2), "big")
        reply = await server.answer(await reader.readexactly(size), "tcp")
        if reply is not None:
            writer.write(len(reply).to_bytes(2, "big") + reply)
        writer.close()

    loop = asyncio.get_running_loop()
    for _ in range(20):  # the port may be taken for UDP
        tcp = await asyncio.start_server(over_tcp, "127.0.0.1", 0)
        port = tcp.sockets[0].getsockname()[1]
        try:
            udp, _ = await loop.create_datagram_endpoint(
                lambda: _OverUdp(server), local_addr=("127.0.0.1", port)
            )
            break
        except OSError:
            tcp.close()
    server.address = f"127.0.0.1:{port}"
    try:
        yield server
    finally:
        udp.close()
        tcp.close()
