"""Screens questions before they are answered, and decides about those that could not be judged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from radixway.chat.safety.safety_verdict import SafetyVerdict
from radixway.chat.safety.shown_threads import REFUSED
from radixway.core.config.chat import ChatSafetyConfig

if TYPE_CHECKING:
    from radixway.chat.records import Message

log = logging.getLogger(__name__)

ScreeningOutcome = Literal["passed", "made_safe", "allowed", "refused"]


class SafetyUnavailableError(Exception):
    """A question could not be judged; the text says why, and nothing of the question."""


class QuestionRefusedError(Exception):
    """A question is not to be answered; the text is for the user."""


class SafetyJudge(Protocol):
    """Judges questions."""

    async def judge(self, turns: Sequence[str], level: int) -> SafetyVerdict:
        """Judge the last of a user's `turns` in limited time. Raises SafetyUnavailableError."""
        ...

    async def aclose(self) -> None:
        """Release its resources."""
        ...


@dataclass(frozen=True, slots=True)
class ScreenedQuestion:
    """A question that may be answered."""

    level: int
    verdict: SafetyVerdict | None = None
    """Set if it changed the question."""


class SafetyScreen:
    """The screen of one gateway. Questions are never logged."""

    def __init__(
        self,
        section: ChatSafetyConfig,
        judge: SafetyJudge,
        count: Callable[[ScreeningOutcome], None] = lambda _: None,
    ) -> None:
        """`count`: called with the outcome of each screening."""
        self._section = section
        self._judge = judge
        self._count = count
        self._failing: str | None = None

    def required_level(self, answer: Message) -> int:
        """Return the level for `answer`: its model's configured one, or a higher one that was requested."""
        configured = self.configured_level(answer.model or "")
        wished = (answer.work_parameters or {}).get("safety_level") or 0
        return max(configured, int(wished))

    def configured_level(self, model: str) -> int:
        """Return the level that is configured for `model`."""
        return self._section.models.get(model, self._section.level)

    async def screen_thread(self, thread: Sequence[Message]) -> ScreenedQuestion:
        """`thread`: from the first message to the answer that is to be. Raises QuestionRefusedError."""
        turns = [message.content or "" for message in thread[:-1] if message.role.value == "prompter"]
        return await self.screen_turns(turns, self.required_level(thread[-1]))

    async def screen_turns(self, turns: Sequence[str], level: int) -> ScreenedQuestion:
        """Screen a user's `turns`, the question last, at `level`. Raises QuestionRefusedError."""
        if level == 0:
            return ScreenedQuestion(0)
        try:
            verdict = await self._judge.judge(turns, level)
        except SafetyUnavailableError as error:
            return self._handle_unavailable(level, str(error))
        self._failing = None
        if not verdict.is_triggered(level):
            self._count("passed")
            return ScreenedQuestion(level)
        self._count("made_safe")
        return ScreenedQuestion(level, verdict)

    def describe(self) -> dict[str, object]:
        """Return the report for `/health`."""
        report: dict[str, object] = {
            "level": self._section.level,
            "by": "guard" if self._section.url is None else "service",
            "on_error": self._section.on_error,
            "state": "ok" if self._failing is None else "failing",
        }
        return report if self._failing is None else report | {"error": self._failing}

    async def aclose(self) -> None:
        """Release the judge's resources."""
        await self._judge.aclose()

    def _handle_unavailable(self, level: int, why: str) -> ScreenedQuestion:
        if self._failing is None:
            log.warning("chat.safety: questions cannot be judged: %s (%s)", why, self._section.on_error)
        self._failing = why
        if self._section.on_error == "refuse":
            self._count("refused")
            raise QuestionRefusedError(REFUSED)
        self._count("allowed")
        return ScreenedQuestion(level)
