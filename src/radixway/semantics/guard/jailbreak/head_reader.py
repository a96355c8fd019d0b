"""The shipped head as a reader."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from radixway.semantics.encoders import EncoderError, EncoderService
from radixway.semantics.guard.jailbreak.attack_kinds import KINDS
from radixway.semantics.guard.jailbreak.attack_reader import LONG, AttackReading
from radixway.semantics.guard.jailbreak.jailbreak_head import JAILBREAK_HEAD, JailbreakHead
from radixway.semantics.guard.step_executor import run_steps

log = logging.getLogger(__name__)

PASSAGES = 4
"""Of a long text, as many are read by the encoder: those whose n-grams are likeliest to attack."""


class HeadReader:
    """Reads with the encoding that other heads of the request share. Loads the head with the first text."""

    def __init__(
        self, encoders: EncoderService, path: Path = JAILBREAK_HEAD, *, in_part_from: int | None = None
    ) -> None:
        """`in_part_from`: characters from which of a text only `PASSAGES` are read by the encoder."""
        self._encoders = encoders
        self.in_part_from = in_part_from
        self._path = path
        self._head: JailbreakHead | None = None
        self._failure: str | None = None

    @property
    def attack_kinds(self) -> tuple[str, ...]:
        """See `AttackReader`."""
        return KINDS if self._head is None else self._head.labels

    async def read_attack(self, text: str, hits: Mapping[str, float]) -> AttackReading:
        """See `AttackReader`."""
        head = self._head or await self._load_head()
        is_long = self.in_part_from is not None and len(text) >= self.in_part_from
        if is_long and not self._encoders.is_asked_for(text):
            return await self._read_in_part(head, text, hits)
        encoding = await self._encoders.encode(text)
        if len(text) <= LONG:
            return head.classify_text(text, encoding, hits)
        return await run_steps(head.classify_steps(text, encoding, hits))

    async def _read_in_part(self, head: JailbreakHead, text: str, hits: Mapping[str, float]) -> AttackReading:
        words = await run_steps(head.classify_ngrams_steps(text))
        passages = words.most_suspicious(PASSAGES) if words.han < 1 else []
        return head.combine_readings(words, [await self._encoders.encode(each) for each in passages], hits)

    def describe(self) -> dict[str, object]:
        """See `AttackReader`."""
        told: dict[str, object] = {"reads": self._path.name}
        return told if self._failure is None else told | {"failure": self._failure}

    async def _load_head(self) -> JailbreakHead:
        """What does not fit the encoder is not tried again. Raises EncoderError."""
        encoder = await self._encoders.wait_until_ready()
        if self._failure is not None:
            raise EncoderError(self._failure)
        try:
            self._head = JailbreakHead.load_file(self._path, encoder)
        except EncoderError as error:
            self._failure = str(error)
            log.error("only known wordings tell attacks: %s", error)
            raise
        return self._head
