"""Classification of a text by the encoder, the semantic snapshot and the guard's detectors."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from radixway.core.pipeline import (
    AttackAssessment,
    AttackJudge,
    GuardUnavailableError,
    ModelStates,
    PersonalDataFinder,
    PersonalDataSpan,
)
from radixway.semantics.classification.intent import TextIntent, read_intent
from radixway.semantics.decisions.service import SemanticService
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.signals.guard_findings import SingleTextGuardHook

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService, TextEncoding

T = TypeVar("T")


class ClassifierUnavailableError(Exception):
    """A model that a question needs is missing; there is no substitute."""

    def __init__(self, missing: str, why: str) -> None:
        """`missing`: `encoder`, `domain_classifier`, `pii_classifier` or `jailbreak_classifier`."""
        super().__init__(why)
        self.missing = missing


class ClassificationService:
    """Questions about texts. Each raises ClassifierUnavailableError, or EncoderBusyError for a full queue."""

    def __init__(
        self,
        encoders: EncoderService,
        semantic: SemanticService,
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
        guard = SingleTextGuardHook(finder, judge) if finder is not None and judge is not None else None
        self._reader = SignalReader(encoders.encode, guard)

    @property
    def snapshot(self) -> SemanticSnapshot:
        """The semantic configuration in force."""
        return self._semantic.snapshots.current

    def read_once(self) -> AbstractContextManager[None]:
        """Within it every text is read once, whatever is asked of it."""
        from radixway.semantics.encoders import encode_once

        return encode_once(self.encoders)

    async def encode_text(self, text: str) -> TextEncoding:
        """Return the text's vector and pieces."""
        return await _with_part_name("encoder", self.encoders.encode(text))

    async def read_intent(self, text: str) -> TextIntent:
        """Return the text's domain, all signals, and the decision it would get."""
        with self.read_once():
            await self.encode_text(text)  # for its error: what reads signals goes on without an encoder
            intent = await read_intent(
                text, self.snapshot, self._reader, self._states, self._semantic.feedback
            )
        if intent.domain is None:
            raise ClassifierUnavailableError(
                "domain_classifier", "no head or classifier reads domains with this encoder"
            )
        return intent

    async def find_personal_data(self, text: str) -> Sequence[PersonalDataSpan]:
        """Return what in the text is personal data, of any confidence."""
        if self.finder is None:
            raise ClassifierUnavailableError("pii_classifier", "no personal data finder is configured")
        return await _with_part_name("pii_classifier", self.finder.find(text))

    async def judge_attack(self, text: str) -> AttackAssessment:
        """Return how likely the text attacks a prompt."""
        if self.judge is None:
            raise ClassifierUnavailableError("jailbreak_classifier", "no attack judge is configured")
        return await _with_part_name("jailbreak_classifier", self.judge.judge(text))


async def _with_part_name(part: str, answer: Awaitable[T]) -> T:
    """Return the part's answer; an error carries its name."""
    from radixway.semantics.encoders import EncoderBusyError, EncoderError

    try:
        return await answer
    except EncoderBusyError:
        raise
    except (EncoderError, GuardUnavailableError) as error:
        raise ClassifierUnavailableError(part, str(error)) from error
