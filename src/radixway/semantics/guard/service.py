"""The guard of a gateway, put together: finder, judge and middlewares."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from radixway.core.component import Component
from radixway.core.config import Config
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.pipeline import (
    GuardFindings,
    GuardUnavailableError,
    ModelStates,
    PersonalDataFinder,
    TokenizerOf,
)
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.encoders import EncoderError
from radixway.semantics.guard.answers.middleware import AnswerGuard, CachedAnswerGuard
from radixway.semantics.guard.guard_context import of_this_request
from radixway.semantics.guard.guard_metrics import GuardMetrics
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.middleware import (
    Guard,
    GuardEvaluation,
    ModelClearanceMiddleware,
    SessionClearanceMiddleware,
)
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.redaction import PlaceholderVault
from radixway.semantics.guard.request_reader import RequestTextReader
from radixway.semantics.guard.rulebook import GuardRulebook
from radixway.semantics.guard.text_scanner import ScanFailedError, TextScanner

if TYPE_CHECKING:
    from radixway.core.config.semantic import SemanticConfig
    from radixway.semantics.guard.jailbreak import DefaultAttackJudge

T = TypeVar("T")
Sections = Callable[[], "SemanticConfig | None"]


class GuardService(Component):
    """The guard of a gateway: its middlewares, scanner, answer guard and metrics."""

    name = "guard"

    def __init__(
        self,
        config: Config,
        semantic: Sections,
        finder: PersonalDataFinder,
        judge: DefaultAttackJudge,
        metrics: MetricsRegistry,
        states: ModelStates,
        tokenizer_of: TokenizerOf | None = None,
        recorder: IncidentRecorder | None = None,
        *,
        rehearses: bool = False,
    ) -> None:
        """`semantic` returns the section in force, which may change while the gateway runs. `rehearses`:
        classifiers are loaded from the start on, not with the first request.
        """
        self._rehearses = rehearses
        self._warm_ups: list[asyncio.Task[None]] = []
        self._config = config.guard
        self._semantic = semantic
        self._book: tuple[SemanticConfig | None, GuardRulebook] | None = None
        counts = self.counts = GuardMetrics(metrics)
        self.scan = TextScanner(finder, judge, counts, wait_s=config.encoders.wait_s)
        reading = RequestTextReader(tokenizer_of, config.guard.long_texts.max_characters)
        status = config.guard.block.status
        self.outer = Guard(self.scan, self.rules, reading, counts, status, recorder)
        self.judging = GuardEvaluation(counts, states)
        self.clearing = ModelClearanceMiddleware(counts, states)
        self.cleared = SessionClearanceMiddleware(reading, counts, states)
        self.answers = AnswerGuard(
            config.guard, finder, metrics, recorder, _request_vault, _set_action_header
        )
        self.cached_answers = CachedAnswerGuard(self.answers)

    @property
    def layers(self) -> Sequence[int]:
        """Layers of the encoder that the guard reads, with every pass, so that one is enough."""
        from radixway.semantics.guard.pii.pii_head import LAYERS

        return LAYERS

    def rules(self) -> GuardRulebook:
        """Return the rules in force."""
        semantic = self._semantic()
        if self._book is None or self._book[0] is not semantic:
            self._book = semantic, GuardRulebook(self._config, semantic)
        return self._book[1]

    async def findings(self, text: str) -> GuardFindings:
        """Return the findings of the request in progress; where there is none, those in `text`."""
        review = of_this_request.get()
        passages = [TextPassage(text, "user", ("text",))]
        found, judged = await asyncio.gather(
            _none_if_failed(review.personal_data() if review else self.scan.find_personal_data(passages)),
            _none_if_failed(review.attacks() if review else self.scan.find_attacks(passages)),
        )
        rules = self.rules().rules_for(None, None, None) if review is None else review.rules
        return GuardFindings(
            None if found is None else [located.found for located in found],
            None if judged is None else [located.attack for located in judged],
            rules.pii.threshold,
            rules.jailbreak.threshold,
        )

    def describe(self) -> dict[str, Any]:
        """Return what `/health` shows."""
        described = self.counts.describe()
        for guard, reader in (("pii", self.scan.finder), ("jailbreak", self.scan.judge)):
            if isinstance(reader, _Describable):
                described[guard] |= reader.describe()
        return described | {"answers": self.answers.describe()}

    async def start(self) -> None:
        """Begin to load what requests will need."""
        if self._rehearses:
            self._warm_ups = [asyncio.create_task(self.warm_up())]

    async def stop(self) -> None:
        """Load no more, and close connections."""
        await cancel_tasks(self._warm_ups)
        await self.answers.aclose()

    async def warm_up(self) -> None:
        """Read a text, so that what cannot be loaded shows before a request needs it."""
        for read in (self.scan.finder.find, self.scan.judge.judge):
            with suppress(GuardUnavailableError, EncoderError):
                await read("Nothing to be found here.")


@runtime_checkable
class _Describable(Protocol):
    def describe(self) -> dict[str, object]: ...


async def _none_if_failed(work: Awaitable[list[T]]) -> list[T] | None:
    """Return what was found; None where the guard failed, which has been counted and logged by then."""
    try:
        return await work
    except ScanFailedError:
        return None


def _request_vault() -> PlaceholderVault | None:
    review = of_this_request.get()
    return None if review is None else review.vault


def _set_action_header(action: str) -> None:
    review = of_this_request.get()
    if review is not None:
        review.notes.append(action)
