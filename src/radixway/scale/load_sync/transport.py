"""How messages travel between gateways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

OnMessage = Callable[[bytes], None]


class SyncTransport(Protocol):
    """Carries bytes to all other gateways, best effort: what cannot be sent now is dropped."""

    name: str
    """As `/health` shows it."""

    @property
    def problem(self) -> str | None:
        """Why nothing gets through now, as far as is known."""
        ...

    async def start_receiving(self, hear: OnMessage) -> None:
        """Begin to carry; `hear` is called in the event loop with each message that comes.

        Raises ConfigError for what can never work. A peer or server that is away is none of that: it is
        tried again until `close`.
        """
        ...

    def broadcast(self, message: bytes) -> None:
        """Send to all others. Never waits and never raises."""
        ...

    async def close_transport(self) -> None:
        """Send what is waiting if that is quick, and let go."""
        ...
