"""IP_ADDRESS, of both versions."""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.plain_text import (
    ContextWords,
    PlainText,
    Recogniser,
    follows_letter,
    touches_letter,
)

_V4 = re.compile(r"(?<!\.)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9])(?!\.[0-9])")
_V6 = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f:]++(?:(?<=:)(?:[0-9]{1,3}\.){3}[0-9]{1,3})?(?![0-9A-Za-z_])")
_LONGEST_V6 = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")
_FULL_V6_COLONS = 7

_ADDRESS_WORDS = ContextWords(
    "ip|ipv[46]|ip ?address|address|addresses|host|ping|subnet|gateway|firewall|router|traceroute|ssh",
    "地址 网关 主机 服务器",
)
_VERSION_WORDS = re.compile(
    r"(?:(?<![A-Za-z])(?:version|ver|v|release|build|revision|rev|section|chapter|clause|article|firmware|oid"
    r"|driver|kernel|software|app|sdk|package|plugin|patch|update|upgraded? to|chrome|firefox|safari|edge"
    r"|android|ios|macos|windows|java|net|python)|§|版本|版|第)[\s.:#=/]{0,4}$",
    re.IGNORECASE,
)
_VERSION_AFTER = re.compile(r" (?:release|build|version|update|firmware)(?![a-z])|版本?", re.IGNORECASE)
_VERSION_WINDOW = 20
_NETWORK = re.compile(r"/([0-9]{1,2})(?![0-9])")
_SMALL = 20


def find_ips(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """Find IP_ADDRESS: 0.9, 0.97 beside a word for it; what may be a chapter or no machine, from 0.3."""
    yield from _find_v4(reading)
    if reading.text.count(":") > 1:
        yield from _find_v6(reading.text)


def _find_v4(reading: PlainText) -> Iterator[PersonalDataSpan]:
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
        if touches_letter(text, begin, end) or _is_version(text, begin, end):
            continue
        near_word = _ADDRESS_WORDS.near(text, begin, end)
        if _is_network(text, address, end):
            yield PersonalDataSpan("IP_ADDRESS", begin, end, 0.5 if near_word else 0.3)
        else:
            yield PersonalDataSpan("IP_ADDRESS", begin, end, _confidence(address, near_word))


def _is_network(text: str, address: IPv4Address, end: int) -> bool:
    """Return whether a prefix follows that leaves nothing for a machine: `10.0.0.0/8`."""
    prefix = _NETWORK.match(text, end)
    bits = address.max_prefixlen - int(prefix[1]) if prefix else 0
    return bits > 0 and not int(address) & (1 << bits) - 1


def _confidence(address: IPv4Address, near_word: bool) -> float:
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.packed[0] in (0, 255):
        return 0.5 if near_word else 0.3  # names no machine
    if max(address.packed) < _SMALL and not address.is_private:
        return 0.85 if near_word else 0.5
    return 0.97 if near_word else 0.9


def _is_version(text: str, begin: int, end: int) -> bool:
    if _VERSION_AFTER.match(text, end):
        return True
    return _VERSION_WORDS.search(text, max(0, begin - _VERSION_WINDOW), begin) is not None


def _find_v6(text: str) -> Iterator[PersonalDataSpan]:
    for match in _V6.finditer(text):
        begin, end = _v6_span(text, *match.span())
        if not 4 <= end - begin <= _LONGEST_V6 or text.count(":", begin, end) < 2:
            continue
        try:
            address = IPv6Address(text[begin:end])
        except AddressValueError:
            continue
        near_word = _ADDRESS_WORDS.near(text, begin, end)
        yield PersonalDataSpan("IP_ADDRESS", begin, end, _confidence_v6(address, text[begin:end], near_word))


def _v6_span(text: str, begin: int, end: int) -> tuple[int, int]:
    """Leave out the name in `node:fe80::1`, whose letters may be digits here, and the colon of `fe80::1:`."""
    if follows_letter(text, begin):
        begin = text.find(":", begin, end) + 1 or end
    elif text[begin] == ":" and text[begin + 1 : begin + 2] != ":":
        begin += 1
    if text[end - 1] == ":" and text[end - 2 : end - 1] != ":":
        end -= 1
    return begin, end


def _confidence_v6(address: IPv6Address, written: str, near_word: bool) -> float:
    """Return the confidence: `a::b` is C++ as well, `1::2` a slice, `1:2:3:4:5:6:7:8` a ratio."""
    if address.is_unspecified or address.is_loopback:
        return 0.5 if near_word else 0.3
    groups = written.split(":")
    full = len(groups) > _FULL_V6_COLONS and max(map(len, groups)) > len("ff")
    if full or ("::" in written and len(written) >= 8 and any(map(str.isdigit, written))):
        return 0.97 if near_word else 0.9
    return 0.85 if near_word else 0.5


RECOGNISERS = (Recogniser(("IP_ADDRESS",), find_ips, fewest_digits=2),)
