"""What a user's last turn is about: a follow-up is read with the turn that it goes on from.

"Are you sure? Check the second step again" says nothing by itself. So the earlier turn that stands by itself
is judged in its place, or together with it where it adds something: category, difficulty and model carry
over, a follow-up can only add to them, and a turn about something else is judged alone. Nothing is stored:
the history tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixway.semantics.prompts.reader import PromptReading, read_prompt
from radixway.semantics.prompts.wording import content_words, is_follow_up, opens_follow_up, says_nothing

_TURNS_BACK = 12
"""User turns before the last one that are looked at."""
_LONG_ASK = 60
"""Words from which an ask stands by itself, whatever it refers to."""
_MAX_EARLIER = 2_000
"""Characters of an earlier ask that are read with a follow-up."""
_MAX_ANSWER = 4_000
"""Characters of the last answer in which a follow-up's words are looked for."""


@dataclass(slots=True)
class ConversationReading:
    """The last turn of a conversation that asks something."""

    ask: str
    """The text that is judged."""
    message: str
    """All of that turn's text, and of the user's turns after it, which hold reminders alone: words that must
    not pass may stand there."""
    reading: PromptReading
    """What of that turn was read."""
    turns_back: int = 0
    """How many of the user's turns lie between it and the one it goes on from; 0: it stands by itself."""


def read_conversation(turns: Sequence[tuple[str | None, str]]) -> ConversationReading | None:
    """Return what the last user turn of `turns` (role, text) asks; None where none asks anything."""
    asked: list[tuple[int, PromptReading]] = []
    for at in range(len(turns) - 1, -1, -1):
        role, text = turns[at]
        if role == "user" and text.strip() and (reading := read_prompt(text)).ask:
            asked.append((at, reading))
            if len(asked) > _TURNS_BACK or (len(asked) == 1 and len(reading.ask.split()) > _LONG_ASK):
                break
            if len(asked) > 1 and not _goes_on(turns, asked[-2][0], at, asked[-2][1].ask, reading.ask):
                asked.pop()
                break
    if not asked:
        return None
    while len(asked) > 1 and says_nothing(asked[-1][1].ask):
        asked.pop()
    last, reading = asked[0]
    message = "\n".join(text for role, text in turns[last:] if role == "user" and text.strip())
    if len(asked) == 1:
        return ConversationReading(reading.ask, message, reading)
    earlier = asked[-1][1].ask[:_MAX_EARLIER]
    ask = earlier if is_follow_up(reading.ask) else f"{earlier}\n{reading.ask}"
    return ConversationReading(ask, message, reading, len(asked) - 1)


def _goes_on(
    turns: Sequence[tuple[str | None, str]], at: int, earlier_at: int, ask: str, earlier: str
) -> bool:
    """Return whether the turn at `at` goes on from the user's turn before it, at `earlier_at`."""
    if opens_follow_up(ask) or is_follow_up(ask):
        return True
    if len(ask.split()) > _LONG_ASK:
        return False
    answers = " ".join(text for role, text in turns[earlier_at + 1 : at] if role == "assistant")
    return not content_words(ask).isdisjoint(
        content_words(f"{earlier[:_MAX_EARLIER]} {answers[:_MAX_ANSWER]}")
    )
