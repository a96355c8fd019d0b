"""A worker: a process that answers requests, as the gateway knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from radixway.config import Role, WorkerSection


class WorkerState(StrEnum):
    """Only a READY worker is a candidate for new requests."""

    JOINING = "joining"
    """Added, not yet seen answering."""
    READY = "ready"
    DOWN = "down"
    """It failed; probed with growing pauses until it answers again."""
    DRAINING = "draining"
    """Finishes what it has and gets nothing new."""


@dataclass(slots=True)
class Load:
    """What a worker has in hand through this gateway, counted from before the connect to the last byte."""

    requests: int = 0
    streams: int = 0
    total: int = 0
    """Requests ever sent to it."""


@dataclass(slots=True, eq=False)
class Worker:
    """Where it is, what it serves, how much it takes, and how it is doing."""

    name: str
    """`host:port` (and path), unique: what journals, metrics and headers show."""
    url: str
    """Without a trailing slash."""
    models: tuple[str, ...] = ()
    given_models: bool = False
    """The operator named the models; the worker's own list is not read then."""
    role: Role = "any"
    kv_tokens: int | None = None
    max_batch_size: int | None = None
    api_key: str | None = field(default=None, repr=False)
    load: Load = field(default_factory=Load)
    state: WorkerState = WorkerState.JOINING
    failures: int = 0
    """Probes failed in a row."""
    last_error: str | None = None
    picked: int = 0
    """Logical time of the selector's last choice of this worker; the least recent wins a tie."""

    @classmethod
    def from_section(cls, section: WorkerSection) -> Worker:
        """A worker as configured or registered, not yet seen."""
        parts = urlsplit(section.url)
        worker = cls(name=parts.netloc + parts.path, url=section.url)
        worker.update(section)
        return worker

    def update(self, section: WorkerSection) -> None:
        """Take over what the operator says; what they leave open stays as the worker told it."""
        self.given_models = bool(section.models)
        self.models = section.models or self.models
        self.role = section.role
        self.kv_tokens = section.kv_tokens or self.kv_tokens
        self.max_batch_size = section.max_batch_size or self.max_batch_size
        self.api_key = section.api_key.get_secret_value() if section.api_key else self.api_key

    def describe(self) -> dict[str, Any]:
        """The worker as `/list_workers` shows it."""
        return {
            "name": self.name,
            "url": self.url,
            "state": self.state.value,
            "models": list(self.models),
            "role": self.role,
            "kv_tokens": self.kv_tokens,
            "max_batch_size": self.max_batch_size,
            "in_flight": self.load.requests,
            "total": self.load.total,
            "last_error": self.last_error,
        }
