"""Counters of KV events for the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class KvEventCounts:
    """Of all workers together, since the start. Only ever grow."""

    batches: int = 0
    stored: int = 0
    removed: int = 0
    cleared: int = 0
    ignored: int = 0
    """Events about other things than a worker's own prefixes."""
    unreadable: int = 0
    orphaned: int = 0
    """Events whose parent block was unknown."""
    gaps: int = 0
    restarts: int = 0
    """Publishers that turned out to be another process than before."""
    replays: int = 0
    replays_failed: int = 0
    degradations: int = 0

    def events(self) -> list[tuple[str, int]]:
        """Events by kind."""
        names = ("stored", "removed", "cleared", "ignored", "unreadable", "orphaned")
        return [(name, getattr(self, name)) for name in names]

    def incidents(self) -> list[tuple[str, int]]:
        """Return gaps, replays and their results by kind."""
        names = ("gaps", "restarts", "replays", "replays_failed", "degradations")
        return [(name, getattr(self, name)) for name in names]
