"""Code: identifiers, paths, flags and versions are compared to the letter."""

from __future__ import annotations

import re
from functools import lru_cache

from radixway.semantics.cache.verifier.parsed_text import ParsedText

_IDENTIFIER = re.compile(
    r"""
    ```.*?```                                    # a block
    | `[^`]+`
    | (?<!\S)--?[A-Za-z][\w-]*                   # a flag
    | \b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\(        # a call
    | \b\w+_\w+\b                                # snake_case
    | \b[a-z]+[A-Z]\w*                           # camelCase
    | \b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\b        # dotted.name, file.ext
    | \b[A-Za-z][A-Za-z+#.]*\s?\d+(?:\.\d+)+\b   # a version: Python 3.11
    | (?<![\w/])(?:~|\.{1,2})?/[\w./-]+          # a path
    | \b0x[0-9a-f]+\b
    | [<>=!]=|&&|\|\||->|::|\+\+
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACES = re.compile(r"\s+")
_NOT_CODE = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "ph.d", "vs.", "etc."})


def identifiers_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether one text has an identifier, a path, a flag or a version that the other does not have."""
    return _identifiers(one.raw) != _identifiers(other.raw)


@lru_cache(maxsize=4096)
def _identifiers(raw: str) -> frozenset[str]:
    found = {_SPACES.sub("", match.group()).strip("`(") for match in _IDENTIFIER.finditer(raw)}
    return frozenset(name for name in found if name and name.lower() not in _NOT_CODE)
