"""How follow-ups and changes of subject are read: data/conversations.toml, three conversations a row."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluation.wrapped import Share, language_of
from radixway.semantics.signals.complexity import lexical_complexity
from radixway.semantics.signals.question import RequestQuestion, read_question

CONVERSATIONS = Path(__file__).parent / "data" / "conversations.toml"
Turn = Literal["goes on", "adds nothing", "changes the subject"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """An ask, its answer, and a last turn."""

    ask: str
    answer: str
    last: str
    turn: Turn
    hard: bool
    looked_at: bool
    """The reader was mended with it in sight."""

    def body(self) -> dict[str, Any]:
        """Return the body of its chat completion."""
        turns = (("user", self.ask), ("assistant", self.answer), ("user", self.last))
        return {"model": "auto", "messages": [{"role": role, "content": said} for role, said in turns]}


def read_conversations(file: Path = CONVERSATIONS) -> Iterator[Conversation]:
    """Yield three conversations of each row of `file`."""
    table = tomllib.loads(file.read_text("utf-8"))
    for number, row in enumerate(table["row"]):
        language = language_of(row["ask"])
        others: dict[Turn, str] = {
            "goes on": row["on"],
            "adds nothing": _take(table[f"empty_{language}"], number),
            "changes the subject": _take(table[f"other_{language}"], number),
        }
        for turn, last in others.items():
            yield Conversation(row["ask"], row["answer"], last, turn, row["hard"], number % 2 == 0)


def evaluate_conversations(file: Path = CONVERSATIONS) -> dict[str, Share]:
    """Return the shares of last turns that are read rightly, and of hard conversations that stay hard."""
    found = [(each, read_question(each.body())) for each in read_conversations(file)]
    checks: dict[
        str, tuple[Callable[[Conversation], bool], Callable[[Conversation, RequestQuestion], bool]]
    ] = {
        "goes on, seen": (lambda each: each.turn == "goes on", lambda _, read: read.turns_back == 1),
        "adds nothing, seen": (
            lambda each: each.turn == "adds nothing",
            lambda _, read: read.turns_back == 1,
        ),
        "changes the subject, seen": (
            lambda each: each.turn == "changes the subject",
            lambda _, read: read.turns_back == 0,
        ),
        "hard, and stays as hard": (
            lambda each: each.hard and each.turn != "changes the subject",
            lambda each, read: lexical_complexity(read.text) >= lexical_complexity(each.ask) - 1e-9,
        ),
    }
    shares: dict[str, Share] = {}
    for held, name_of in ((False, "{}, looked at"), (True, "{}, held out")):
        for name, (counts, is_right) in checks.items():
            rows = [(each, read) for each, read in found if counts(each) and each.looked_at != held]
            shares[name_of.format(name)] = Share(sum(is_right(*row) for row in rows), len(rows))
    return shares


def _take(texts: list[str], number: int) -> str:
    return texts[number % len(texts)]


def wrong_turns(file: Path = CONVERSATIONS) -> Iterator[Mapping[str, Any]]:
    """Yield the conversations looked at whose last turn is read wrongly."""
    for each in read_conversations(file):
        back = read_question(each.body()).turns_back
        if each.looked_at and (back == 0) != (each.turn == "changes the subject"):
            yield {"ask": each.ask, "last": each.last, "turn": each.turn, "turns_back": back}
