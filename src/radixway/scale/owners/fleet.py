"""Which gateway a name belongs to."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest


@dataclass(frozen=True, slots=True)
class GatewayFleet:
    """All gateways by their URLs. Pure, and the same in each.

    Rendezvous hashing (Thaler and Ravishankar 1998): a name belongs to the gateway whose hash with it is the
    highest, so that one that is added or taken away moves its own share of names and no other.
    """

    own: str
    urls: Sequence[str]

    def find_owner(self, name: str) -> str:
        """The URL of the gateway that keeps what has that name."""
        return max(self.urls, key=lambda url: (xxh3_64_intdigest(f"{url}\0{name}".encode()), url))

    def make_owned_name(self) -> str:
        """A fresh name that belongs to this gateway."""
        while self.find_owner(name := uuid.uuid4().hex) != self.own:
            pass
        return name

    @property
    def other_gateways(self) -> list[str]:
        """All but this one."""
        return [url for url in self.urls if url != self.own]
