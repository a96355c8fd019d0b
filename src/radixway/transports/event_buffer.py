"""Server-sent events put together again: what ends in the middle of one is held back until it is whole."""

from __future__ import annotations

_BLANK_LINES = (b"\n\n", b"\r\n\r\n")

LARGEST_EVENT_BYTES = 64 * 2**20
"""An event that grows beyond this ends the stream: it has to be held in memory until it is whole."""


class EventBuffer:
    """What has arrived after the last blank line."""

    __slots__ = ("_held", "_searched")

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        """No blank line ends before this place in what is held."""

    @property
    def too_large(self) -> bool:
        """One event alone is more than anybody should hold."""
        return len(self._held) > LARGEST_EVENT_BYTES

    def take(self, chunk: bytes) -> bytes:
        """The whole events that are there with `chunk`."""
        if not self._held and chunk.endswith(_BLANK_LINES):
            return chunk
        held = self._held
        held += chunk
        end = _end_of_events(held, self._searched)
        taken = bytes(held[:end])
        del held[:end]
        self._searched = max(0, len(held) - 3)  # a blank line may have begun there
        return taken

    def take_rest(self) -> bytes:
        """What is held when nothing more comes: an event without a blank line behind it, whole or cut."""
        rest = bytes(self._held)
        self._held.clear()
        self._searched = 0
        return rest


def _end_of_events(text: bytearray, start: int) -> int:
    """Where the last blank line from `start` on ends; 0 if there is none."""
    return max(at + len(line) if (at := text.rfind(line, start)) >= 0 else 0 for line in _BLANK_LINES)
