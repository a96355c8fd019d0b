"""What the two sides have in common, seen from the engine."""

from typing import Protocol

from radixway.engine.disaggregation.identity import Identity
from radixway.engine.disaggregation.stats import TransferStats


class Side(Protocol):
    """Belongs to the engine thread, but for `stats`."""

    @property
    def identity(self) -> Identity:
        """What KV is computed with now."""

    @property
    def port(self) -> int | None:
        """Where others come for KV; None where they do not."""

    def begin(self, identity: Identity) -> None:
        """End every transfer; those that follow are of KV with this identity."""

    def end_all(self, reason: str) -> None:
        """End every transfer now; on return no thread reads or writes pages any more."""

    def close(self) -> None:
        """End all transfers and threads. Nothing may follow."""

    def stats(self) -> TransferStats:
        """May be called from any thread."""
