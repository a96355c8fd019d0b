"""Token ids that are kept so that a prompt is tokenized once."""

from __future__ import annotations

from collections import OrderedDict

_ENTRY_BYTES = 250
"""Memory of an entry beside its tokens."""


class TokenCache:
    """Token ids (little-endian uint32) by digest of what they were made from, least recently used out first.

    For one thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self.size_bytes = 0
        """Memory in use, estimated."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> bytes | None:
        """The ids kept under `key`, if they still are."""
        packed = self._entries.get(key)
        if packed is not None:
            self._entries.move_to_end(key)
        return packed

    def __setitem__(self, key: bytes, packed: bytes) -> None:
        """Keep ids; older ones may have to go."""
        earlier = self._entries.pop(key, None)
        if earlier is not None:
            self.size_bytes -= len(earlier) + _ENTRY_BYTES
        self._entries[key] = packed
        self.size_bytes += len(packed) + _ENTRY_BYTES
        while self.size_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.size_bytes -= len(oldest) + _ENTRY_BYTES

    def clear_tokens(self) -> int:
        """Forget all; how many entries there were."""
        count = len(self._entries)
        self._entries.clear()
        self.size_bytes = 0
        return count

    def check(self) -> None:
        """Recompute the account. Raises AssertionError in words."""
        size = sum(len(packed) + _ENTRY_BYTES for packed in self._entries.values())
        assert size == self.size_bytes, f"{size} bytes are kept, not {self.size_bytes}"
        assert size <= self._max_bytes, "more is kept than may be"
