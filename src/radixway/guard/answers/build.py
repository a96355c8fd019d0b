"""The answers' part of the guard, put together for a gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixway.config.guard import GuardSection
from radixway.guard.answers.middleware import AnswerGuard, KeptAnswerGuard, Sections
from radixway.guard.answers.moderation import Moderator
from radixway.guard.answers.report import AnswerCounts
from radixway.guard.answers.watching import WatchingParts
from radixway.guard.incident import Recorder
from radixway.guard.placeholders import Vault
from radixway.pipeline import PersonalDataFinder, Request
from radixway.telemetry import Metrics


class AnswersRoom:
    """What a gateway has of this room."""

    def __init__(
        self,
        config: GuardSection,
        finder: PersonalDataFinder,
        metrics: Metrics,
        vault_of: Callable[[Request], Vault | None],
        note: Callable[[str], None],
        recorder: Recorder | None = None,
    ) -> None:
        """`vault_of`, `note`: see `AnswerGuard`.

        Raises ConfigError where a key cannot be read.
        """
        own = {name: policy.answers for name, policy in config.policies.items()}
        sections = Sections(config.answers, own)
        moderators = [Moderator(each.moderation) for each in sections.all if each.moderation.url is not None]
        self._parts = WatchingParts(finder, moderators)
        self._counts = AnswerCounts(metrics)
        self.guard = AnswerGuard(sections, self._parts, self._counts, vault_of, recorder, note)
        self.kept = KeptAnswerGuard(self.guard)

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return self._counts.describe()

    async def aclose(self) -> None:
        """Let go of connections."""
        for moderator in self._parts.moderators:
            await moderator.aclose()
