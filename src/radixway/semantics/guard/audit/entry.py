"""One line of the audit log: what it says, and how it hangs on the line before it.

    {"action":"block", … "prev":"<hash of the line before>","seq":41, … }     sealed: + "hash"

The hash is over the entry without it, as canonical JSON: keys sorted, no space, UTF-8. `jq -cSj 'del(.hash)'`
writes the same bytes, so that `sha256sum` can check a line that this program wrote.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

Fields: TypeAlias = dict[str, Any]

GENESIS = "0" * 64
"""What the first entry of all names as the hash before it."""
SHORTEST_KEY = 16
"""Bytes."""


class EntryHasher:
    """How entries are hashed: SHA-256, or HMAC-SHA-256 under a key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Raises ValueError for a key that could be guessed."""
        if key is not None and len(key) < SHORTEST_KEY:
            raise ValueError(f"a key needs {SHORTEST_KEY} bytes, and has {len(key)}")
        self._key = key
        self.name = "sha256" if key is None else "hmac-sha256"

    def hash_entry(self, fields: Mapping[str, Any]) -> str:
        """Of everything in an entry but its own hash."""
        raw = encode_entry({name: value for name, value in fields.items() if name != "hash"})
        if self._key is None:
            return hashlib.sha256(raw).hexdigest()
        return hmac.new(self._key, raw, hashlib.sha256).hexdigest()

    def seal_entry(self, fields: Mapping[str, Any]) -> Fields:
        """The entry with its hash."""
        return {**fields, "hash": self.hash_entry(fields)}

    def verify_entry(self, entry: Mapping[str, Any]) -> bool:
        """Whether its hash is its own."""
        given = entry.get("hash")
        return isinstance(given, str) and hmac.compare_digest(given.encode(), self.hash_entry(entry).encode())


def encode_entry(fields: Mapping[str, Any]) -> bytes:
    """The one way in which an entry is written, without the end of the line."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def parse_entry(line: bytes) -> Fields | None:
    """The entry on a line; None where it is not one, or is written in another way than ours."""
    try:
        entry = json.loads(line)
        if isinstance(entry, dict) and isinstance(entry.get("seq"), int) and encode_entry(entry) == line:
            return entry
    except (ValueError, RecursionError):
        pass
    return None


def format_entry_time(now: float) -> str:
    """Seconds since the epoch as an entry writes them: UTC, to the microsecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def entry_time_s(entry: Mapping[str, Any]) -> float:
    """When an entry was written. Raises ValueError where it does not say."""
    return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
