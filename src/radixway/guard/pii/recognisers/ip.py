"""IP_ADDRESS, of both versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from radixway.guard.pii.recognisers.context import Words
from radixway.guard.pii.recognisers.reading import Reading, follows_letter, touches_letter
from radixway.pipeline import PersonalData

_V4 = re.compile(r"(?<!\.)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9])(?!\.[0-9])")
_V6 = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f:]++(?:(?<=:)(?:[0-9]{1,3}\.){3}[0-9]{1,3})?(?![0-9A-Za-z_])")
_LONGEST_V6 = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")
_FULL_V6_COLONS = 7

_ADDRESS_WORDS = Words(
    "ip|ipv[46]|ip ?address|address|addresses|server|host|client|ping|subnet|gateway|dns|firewall|router"
    "|traceroute|ssh|login|from",
    "地址 服务器 网关 主机",
)
_VERSION_WORDS = re.compile(
    r"(?:version|ver|v|release|build|revision|rev|section|chapter|clause|article|§|版本|版|第)[\s.:#=]{0,4}$",
    re.IGNORECASE,
)
_VERSION_WINDOW = 16
_SMALL = 20


def find_ips(reading: Reading) -> Iterator[PersonalData]:
    """0.9, 0.97 beside a word for it; what may be a chapter, and what names no machine, from 0.3."""
    yield from _find_v4(reading)
    if reading.text.count(":") > 1:
        yield from _find_v6(reading.text)


def _find_v4(reading: Reading) -> Iterator[PersonalData]:
    text = reading.text
    for begin, end in reading.runs:
        match = _V4.match(text, begin) if text[end : end + 1] == "." else None
        if match is None:
            continue
        end = match.end()
        try:
            address = IPv4Address(match[0])
        except AddressValueError:
            continue
        if touches_letter(text, begin, end) or _is_version(text, begin):
            continue
        yield PersonalData(
            "IP_ADDRESS", begin, end, _confidence(address, _ADDRESS_WORDS.near(text, begin, end))
        )


def _confidence(address: IPv4Address, beside: bool) -> float:
    if address.is_unspecified or address.is_loopback or address.packed[0] == 255:
        return 0.5 if beside else 0.3
    if max(address.packed) < _SMALL:
        return 0.85 if beside else 0.5
    return 0.97 if beside else 0.9


def _is_version(text: str, begin: int) -> bool:
    return _VERSION_WORDS.search(text, max(0, begin - _VERSION_WINDOW), begin) is not None


def _find_v6(text: str) -> Iterator[PersonalData]:
    for match in _V6.finditer(text):
        begin, end = _v6_span(text, *match.span())
        if not 4 <= end - begin <= _LONGEST_V6 or text.count(":", begin, end) < 2:
            continue
        try:
            address = IPv6Address(text[begin:end])
        except AddressValueError:
            continue
        beside = _ADDRESS_WORDS.near(text, begin, end)
        yield PersonalData("IP_ADDRESS", begin, end, _confidence_v6(address, text[begin:end], beside))


def _v6_span(text: str, begin: int, end: int) -> tuple[int, int]:
    """Without the name in `node:fe80::1`, whose letters may be digits here, and the colon of `fe80::1:`."""
    if follows_letter(text, begin):
        begin = text.find(":", begin, end) + 1 or end
    elif text[begin] == ":" and text[begin + 1 : begin + 2] != ":":
        begin += 1
    if text[end - 1] == ":" and text[end - 2 : end - 1] != ":":
        end -= 1
    return begin, end


def _confidence_v6(address: IPv6Address, written: str, beside: bool) -> float:
    """`a::b` is C++ as well, and `1::2` a slice."""
    if address.is_unspecified or address.is_loopback:
        return 0.5 if beside else 0.3
    telling = written.count(":") == _FULL_V6_COLONS or (len(written) >= 8 and any(map(str.isdigit, written)))
    if telling:
        return 0.97 if beside else 0.9
    return 0.85 if beside else 0.5
