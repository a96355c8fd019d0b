"""Who has questions judged before they are answered, and what becomes of those that nobody could judge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from radixway.chat.safety.threads import REFUSED
from radixway.chat.safety.verdict import Verdict
from radixway.config.chat_safety import ChatSafetySection

if TYPE_CHECKING:
    from radixway.chat.records import Message

log = logging.getLogger(__name__)

Outcome = Literal["passed", "made_safe", "allowed", "refused"]


class Unjudged(Exception):
    """A question could not be judged; the text says why, and nothing of the question."""


class Refused(Exception):
    """And so it is not to be answered; the text is for whoever asked."""


class Judge(Protocol):
    """Somebody who judges questions."""

    async def judge(self, turns: Sequence[str], level: int) -> Verdict:
        """Of the last of a user's turns, after those before it, in limited time. Raises Unjudged."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class Screened:
    """A question that may be answered."""

    level: int
    """That was in force."""
    verdict: Verdict | None = None
    """Where it mattered: the question is not what it was."""


class Screen:
    """For one gateway. What it is asked is never logged."""

    def __init__(
        self, section: ChatSafetySection, judge: Judge, count: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        """`count`: told what became of every question that was judged."""
        self._section = section
        self._judge = judge
        self._count = count
        self._failing: str | None = None

    def level_of(self, answer: Message) -> int:
        """What is configured for its model, or more where that was asked for."""
        least = self.least_for(answer.model or "")
        wished = (answer.work_parameters or {}).get("safety_level") or 0
        return max(least, int(wished))

    def least_for(self, model: str) -> int:
        """The level that is configured for a model."""
        return self._section.models.get(model, self._section.level)

    async def look_at(self, thread: Sequence[Message]) -> Screened:
        """`thread`: from the first message to the answer that is to be. Raises Refused."""
        turns = [each.content or "" for each in thread[:-1] if each.role.value == "prompter"]
        return await self.look_at_turns(turns, self.level_of(thread[-1]))

    async def look_at_turns(self, turns: Sequence[str], level: int) -> Screened:
        """What a user said, the question last. Raises Refused."""
        if level == 0:
            return Screened(0)
        try:
            verdict = await self._judge.judge(turns, level)
        except Unjudged as error:
            return self._unjudged(level, str(error))
        self._failing = None
        if not verdict.triggers(level):
            self._count("passed")
            return Screened(level)
        self._count("made_safe")
        return Screened(level, verdict)

    def describe(self) -> dict[str, object]:
        """For `/health`."""
        said: dict[str, object] = {
            "level": self._section.level,
            "by": "guard" if self._section.url is None else "service",
            "on_error": self._section.on_error,
            "state": "ok" if self._failing is None else "failing",
        }
        return said if self._failing is None else said | {"error": self._failing}

    async def aclose(self) -> None:
        """Let go of what the judge holds."""
        await self._judge.aclose()

    def _unjudged(self, level: int, why: str) -> Screened:
        if self._failing is None:
            log.warning("chat.safety: questions cannot be judged: %s (%s)", why, self._section.on_error)
        self._failing = why
        if self._section.on_error == "refuse":
            self._count("refused")
            raise Refused(REFUSED)
        self._count("allowed")
        return Screened(level)
