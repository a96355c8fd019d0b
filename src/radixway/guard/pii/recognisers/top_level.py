"""Top-level domains: countries' (ISO 3166, IANA) and the generic ones that people have addresses under."""

from __future__ import annotations

from radixway.guard.pii.gazetteers import read_list

_MOST_LABELS = 127
_KNOWN = frozenset(label for line in read_list("top_level_domains") for label in line.split())


def is_top_level(label: str) -> bool:
    """Whether names end so, in any case; punycode's names count."""
    label = label.lower()
    return label in _KNOWN or label.startswith("xn--")


def known_length(name: str) -> int:
    """How much of a dotted name ends in a top-level domain: `host.com` of `host.com.Thanks`; 0: nothing.

    Linear: only as many labels are looked at as a name may have.
    """
    for _ in range(_MOST_LABELS):
        head, dot, last = name.rpartition(".")
        if not dot:
            return 0
        if is_top_level(last):
            return len(name)
        name = head
    return 0
