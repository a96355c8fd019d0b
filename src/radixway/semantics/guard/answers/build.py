"""The answers' part of the guard, put together for a gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixway.core.config.guard import GuardConfig
from radixway.core.pipeline import PersonalDataFinder, Request
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.answers.guard_report import AnswerGuardMetrics
from radixway.semantics.guard.answers.middleware import AnswerGuard, AnswerSections, CachedAnswerGuard
from radixway.semantics.guard.answers.moderation import ModerationClient
from radixway.semantics.guard.answers.response_inspection import InspectionTools
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.placeholders import PlaceholderVault


class AnswerGuardService:
    """The answer guard of a gateway: its middlewares, moderation clients and metrics."""

    def __init__(
        self,
        config: GuardConfig,
        finder: PersonalDataFinder,
        metrics: MetricsRegistry,
        vault_of: Callable[[Request], PlaceholderVault | None],
        note: Callable[[str], None],
        recorder: IncidentRecorder | None = None,
    ) -> None:
        """`vault_of`, `note`: see `AnswerGuard`.

        Raises ConfigError where a key cannot be read.
        """
        own = {name: policy.answers for name, policy in config.policies.items()}
        sections = AnswerSections(config.answers, own)
        moderators = [
            ModerationClient(each.moderation)
            for each in sections.all_sections
            if each.moderation.url is not None
        ]
        self._parts = InspectionTools(finder, moderators)
        self._counts = AnswerGuardMetrics(metrics)
        self.guard = AnswerGuard(sections, self._parts, self._counts, vault_of, recorder, note)
        self.kept = CachedAnswerGuard(self.guard)

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return self._counts.describe()

    async def aclose(self) -> None:
        """Let go of connections."""
        for moderator in self._parts.moderators:
            await moderator.aclose()
