"""Entries of every request's journal, as structs: no fields to pack, nothing for the garbage collector."""

from typing import Any

import msgspec


class ReceivedRequest(msgspec.Struct, gc=False):
    """The entry `receive`: what the gateway was asked for."""

    surface: str
    model: str | None
    stream: bool
    bytes: int
    """Length of the body."""

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        return {"surface": self.surface, "model": self.model, "stream": self.stream, "bytes": self.bytes}


class WorkerAnswer(msgspec.Struct, gc=False):
    """The entry `answer`: who has answered."""

    worker: str
    status: int

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        return {"worker": self.worker, "status": self.status}
