"""The weight version that a whole reply says it was made with, without decoding the reply."""

from __future__ import annotations

import re

_KEY = b'"weight_version"'
# Inside a JSON text the key's quotes would be escaped, so what is found is a key.
_VALUE = re.compile(rb'\s*:\s*(?:"([^"\\]{1,256})"|(\d{1,256})\b)')


def find_weight_version(body: bytes) -> str | None:
    """As in SGLang's `meta_info` and in its chat completions' `metadata`; the first one of a batch."""
    at = body.find(_KEY)
    if at < 0:
        return None
    found = _VALUE.match(body, at + len(_KEY))
    return (found[1] or found[2]).decode(errors="replace") if found is not None else None
