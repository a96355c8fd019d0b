"""The room put together for a gateway: who finds, who judges, and the steps of the road."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from radixway.component import Component
from radixway.config import Config
from radixway.encoders import EncoderError
from radixway.guard.answers.build import AnswersRoom
from radixway.guard.clearing import Cleared, Clearing
from radixway.guard.counts import Counts
from radixway.guard.incident import Recorder
from radixway.guard.middleware import Guard, Judging
from radixway.guard.placeholders import Vault
from radixway.guard.reading import Reading
from radixway.guard.review import of_this_request
from radixway.guard.scan import Failed, Scan, TurnsJudge
from radixway.guard.settings import Rulebook
from radixway.guard.texts import Passage
from radixway.net.stopping import stop
from radixway.pipeline import (
    GuardFindings,
    GuardUnavailable,
    ModelStates,
    PersonalDataFinder,
    Request,
    TokenizerOf,
)
from radixway.telemetry import Metrics

if TYPE_CHECKING:
    from radixway.config.semantic import SemanticSection

T = TypeVar("T")
Sections = Callable[[], "SemanticSection | None"]


class GuardRoom(Component):
    """What a gateway has of this room."""

    name = "guard"

    def __init__(
        self,
        config: Config,
        semantic: Sections,
        finder: PersonalDataFinder,
        judge: TurnsJudge,
        metrics: Metrics,
        states: ModelStates,
        tokenizer_of: TokenizerOf | None = None,
        recorder: Recorder | None = None,
        *,
        rehearses: bool = False,
    ) -> None:
        """`semantic`: the section in force, which may change while the gateway runs. `rehearses`: classifiers
        are loaded from the start on, not with the first request.
        """
        self._rehearses = rehearses
        self._rehearsing: list[asyncio.Task[None]] = []
        self._config = config.guard
        self._semantic = semantic
        self._book: tuple[SemanticSection | None, Rulebook] | None = None
        counts = self.counts = Counts(metrics)
        self.scan = Scan(finder, judge, counts, wait_s=config.encoders.wait_s)
        reading = Reading(tokenizer_of, config.guard.long_texts.max_characters)
        status = config.guard.block.status
        self.outer = Guard(self.scan, self.rules, reading, counts, status, recorder)
        self.judging = Judging(counts, states)
        self.clearing = Clearing(counts, states)
        self.cleared = Cleared(reading, counts, states)
        self.answers = AnswersRoom(config.guard, finder, metrics, _vault, _note, recorder)

    @property
    def layers(self) -> Sequence[int]:
        """Of the encoder, that the guard reads; with every pass, so that one is enough."""
        from radixway.guard.pii.head import LAYERS

        return LAYERS

    def rules(self) -> Rulebook:
        """Those in force."""
        semantic = self._semantic()
        if self._book is None or self._book[0] is not semantic:
            self._book = semantic, Rulebook(self._config, semantic)
        return self._book[1]

    async def findings(self, text: str) -> GuardFindings:
        """What is found in the request that is on its way here; where there is none, in `text`."""
        review = of_this_request.get()
        passages = [Passage(text, "user", ("text",))]
        found, judged = await asyncio.gather(
            _unless_failed(review.personal_data() if review else self.scan.personal_data(passages)),
            _unless_failed(review.attacks() if review else self.scan.attacks(passages)),
        )
        rules = self.rules().of(None, None, None) if review is None else review.rules
        return GuardFindings(
            None if found is None else [each.found for each in found],
            None if judged is None else [each.attack for each in judged],
            rules.pii.threshold,
            rules.jailbreak.threshold,
        )

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        told = self.counts.describe()
        for guard, reader in (("pii", self.scan.finder), ("jailbreak", self.scan.judge)):
            if isinstance(reader, _Described):
                told[guard] |= reader.describe()
        return told | {"answers": self.answers.describe()}

    async def start(self) -> None:
        """Begin to load what requests will need."""
        if self._rehearses:
            self._rehearsing = [asyncio.create_task(self.rehearse())]

    async def stop(self) -> None:
        """Load no more, and let go of connections."""
        await stop(self._rehearsing)
        await self.answers.aclose()

    async def rehearse(self) -> None:
        """Have a text of ours read, so that what cannot be loaded is told before a request needs it."""
        for read in (self.scan.finder.find, self.scan.judge.judge):
            with suppress(GuardUnavailable, EncoderError):
                await read("Nothing to be found here.")


@runtime_checkable
class _Described(Protocol):
    """A finder or judge that says what it reads with."""

    def describe(self) -> dict[str, object]: ...


async def _unless_failed(work: Awaitable[list[T]]) -> list[T] | None:
    """What was found; None where the guard failed, which has been counted and logged by then."""
    try:
        return await work
    except Failed:
        return None


def _vault(_: Request) -> Vault | None:
    """What turns back the placeholders of the request that is on its way here."""
    review = of_this_request.get()
    return None if review is None else review.vault


def _note(action: str) -> None:
    """For the header of the reply that is on its way back from here."""
    review = of_this_request.get()
    if review is not None:
        review.notes.append(action)
