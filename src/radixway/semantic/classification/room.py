"""Who is asked what a text is: the encoder, the semantic snapshot, and whoever judges for the guard."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from radixway.pipeline import (
    Attack,
    AttackJudge,
    GuardUnavailable,
    ModelStates,
    PersonalData,
    PersonalDataFinder,
)
from radixway.semantic.build import SemanticRoom
from radixway.semantic.classification.intent import Intent, read_intent
from radixway.semantic.reading import Reader
from radixway.semantic.signals.guard import OfOneText
from radixway.semantic.snapshot import Snapshot

if TYPE_CHECKING:
    from radixway.encoders import EncoderService, Encoding

T = TypeVar("T")


class Unavailable(Exception):
    """What a question needs is not there; nothing is answered in its place."""

    def __init__(self, missing: str, why: str) -> None:
        """`missing`: `encoder`, `domain_classifier`, `pii_classifier` or `jailbreak_classifier`."""
        super().__init__(why)
        self.missing = missing


class ClassificationRoom:
    """Questions about texts. Each raises Unavailable, and EncoderBusy where too many texts wait already."""

    def __init__(
        self,
        encoders: EncoderService,
        semantic: SemanticRoom,
        states: ModelStates,
        finder: PersonalDataFinder | None = None,
        judge: AttackJudge | None = None,
    ) -> None:
        """`semantic`: running, or at least with its first snapshot taken."""
        self.encoders = encoders
        self.finder = finder
        self.judge = judge
        self._semantic = semantic
        self._states = states
        guard = OfOneText(finder, judge) if finder is not None and judge is not None else None
        self._reader = Reader(encoders.encode, guard)

    @property
    def snapshot(self) -> Snapshot:
        """The semantic configuration in force."""
        return self._semantic.snapshots.current

    def read_once(self) -> AbstractContextManager[None]:
        """Within it every text is read once, whatever is asked of it."""
        from radixway.encoders import read_once

        return read_once(self.encoders)

    async def encode(self, text: str) -> Encoding:
        """The text's vector and pieces."""
        return await _named("encoder", self.encoders.encode(text))

    async def intent(self, text: str) -> Intent:
        """The text's domain, all signals, and the decision it would get."""
        with self.read_once():
            await self.encode(text)  # for its error: what reads signals goes on without an encoder
            intent = await read_intent(
                text, self.snapshot, self._reader, self._states, self._semantic.feedback
            )
        if intent.domain is None:
            raise Unavailable("domain_classifier", "no head or classifier reads domains with this encoder")
        return intent

    async def personal_data(self, text: str) -> Sequence[PersonalData]:
        """What in the text is personal data, of any confidence."""
        if self.finder is None:
            raise Unavailable("pii_classifier", "nobody finds personal data here")
        return await _named("pii_classifier", self.finder.find(text))

    async def attack(self, text: str) -> Attack:
        """How likely the text attacks a prompt."""
        if self.judge is None:
            raise Unavailable("jailbreak_classifier", "nobody judges attacks here")
        return await _named("jailbreak_classifier", self.judge.judge(text))


async def _named(part: str, asked: Awaitable[T]) -> T:
    """The answer; an error of the part under its name."""
    from radixway.encoders import EncoderBusy, EncoderError

    try:
        return await asked
    except EncoderBusy:
        raise
    except (EncoderError, GuardUnavailable) as error:
        raise Unavailable(part, str(error)) from error
