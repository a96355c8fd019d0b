"""One line of the audit log, and the hash that chains it to the line before.

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
_SHORTEST_KEY_BYTES = 16


class EntryHasher:
    """Hashes entries: SHA-256, or HMAC-SHA-256 under a key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Raises ValueError for a `key` that could be guessed."""
        if key is not None and len(key) < _SHORTEST_KEY_BYTES:
            raise ValueError(f"a key needs {_SHORTEST_KEY_BYTES} bytes, and has {len(key)}")
        self._key = key
        self.name = "sha256" if key is None else "hmac-sha256"

    def hash_entry(self, fields: Mapping[str, Any]) -> str:
        """Return the hash of all `fields` but their own `hash`."""
        raw = encode_entry({name: value for name, value in fields.items() if name != "hash"})
        if self._key is None:
            return hashlib.sha256(raw).hexdigest()
        return hmac.new(self._key, raw, hashlib.sha256).hexdigest()

    def seal_entry(self, fields: Mapping[str, Any]) -> Fields:
        """Return `fields` with their hash."""
        return {**fields, "hash": self.hash_entry(fields)}

    def verify_entry(self, entry: Mapping[str, Any]) -> bool:
        """Return whether `entry` carries its own hash."""
        given = entry.get("hash")
        return isinstance(given, str) and hmac.compare_digest(given.encode(), self.hash_entry(entry).encode())


def encode_entry(fields: Mapping[str, Any]) -> bytes:
    """Encode `fields` in the one way in which entries are written, without the end of the line."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def parse_entry(line: bytes) -> Fields | None:
    """Decode `line`; None where it is no entry, or is written in another way than `encode_entry` does."""
    try:
        entry = json.loads(line)
        if isinstance(entry, dict) and isinstance(entry.get("seq"), int) and encode_entry(entry) == line:
            return entry
    except (ValueError, RecursionError):
        pass
    return None


def format_entry_time(now: float) -> str:
    """Format `now`, seconds since the epoch, as entries have it: UTC, to the microsecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def entry_time_s(entry: Mapping[str, Any]) -> float:
    """Return when `entry` was written. Raises ValueError where it does not say."""
    return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
