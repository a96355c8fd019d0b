"""The shipped head as a reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from radixway.encoders import EncoderService
from radixway.guard.jailbreak.head import JAILBREAK_HEAD, JailbreakHead
from radixway.guard.jailbreak.kinds import KINDS
from radixway.guard.jailbreak.reading import Reading


class HeadReader:
    """Reads with the encoding that other heads of the request share. Loads the head with the first text."""

    def __init__(self, encoders: EncoderService, path: Path = JAILBREAK_HEAD) -> None:
        self._encoders = encoders
        self._path = path
        self._head: JailbreakHead | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `Reader`."""
        return KINDS if self._head is None else self._head.labels

    async def read(self, text: str, hits: Mapping[str, float]) -> Reading:
        """See `Reader`."""
        if self._head is None:
            self._head = JailbreakHead.load(self._path, await self._encoders.ready())
        return self._head.read(text, await self._encoders.encode(text), hits)

    def describe(self) -> dict[str, object]:
        """See `Reader`."""
        return {"head": self._path.name}
