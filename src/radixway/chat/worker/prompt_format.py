"""Renders threads of messages as prompts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from radixway.chat.model_configs import build_system_prompt

PromptFormat = Literal["v2", "chatml", "engine"]
"""`v2` and `chatml`: as the published worker writes prompts. `engine`: by the engine's own chat template."""

_RESERVE = 0.01
"""Share of the input's length reserved for tokens between turns."""


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """The text of one role."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class _TurnMarkers:
    roles: dict[str, str]
    end: str
    stop: tuple[str, ...]


_MARKS = {
    "v2": _TurnMarkers(
        {"system": "<|system|>", "user": "<|prompter|>", "assistant": "<|assistant|>"},
        "</s>",
        ("<|system|>", "<|prompter|>", "<|assistant|>", "</s>"),
    ),
    "chatml": _TurnMarkers(
        {role: f"<|im_start|>{role}\n" for role in ("system", "user", "assistant")},
        "<|im_end|>\n",
        ("<|im_start|>", "<|im_end|>"),
    ),
}


def parse_turns(work: dict[str, Any]) -> list[PromptTurn]:
    """Return the turns of `work`, a published WorkRequest, the system message first."""
    system = build_system_prompt(work.get("parameters") or {})
    turns = [PromptTurn("system", system)] if system else []
    for message in work["thread"]["messages"]:
        role: Literal["user", "assistant"] = "user" if message["role"] == "prompter" else "assistant"
        turns.append(PromptTurn(role, message.get("content") or ""))
    return turns


def truncate_turns(
    turns: Sequence[PromptTurn], max_tokens: int, count: Callable[[str], int]
) -> list[PromptTurn]:
    """Return the latest `turns` that fit into `max_tokens`, and the system message in any case.

    Where the last turn alone is too long, its beginning is left out. `count`: tokens of a text.
    """
    system = [turn for turn in turns[:1] if turn.role == "system"]
    left = int(max_tokens * (1 - _RESERVE)) - sum(count(turn.text) for turn in system)
    latest: list[PromptTurn] = []
    for turn in reversed(turns[len(system) :]):
        length = count(turn.text)
        if length > left:
            if not latest:
                latest.append(PromptTurn(turn.role, _truncate_text(turn.text, left, count)))
            break
        left -= length
        latest.append(turn)
    while len(latest) > 1 and latest[-1].role == "assistant":
        latest.pop()  # templates want a user's turn first
    return system + latest[::-1]


def _truncate_text(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest end of a text that fits, by bisection: it begins within [low, high)."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if count(text[middle:]) <= max(max_tokens, 0):
            high = middle
        else:
            low = middle + 1
    return text[low:]


def render_prompt(turns: Sequence[PromptTurn], form: Literal["v2", "chatml"], end: str | None = None) -> str:
    """Return the prompt of `turns` to the assistant's turn. `end`: the model's own end of a turn, in `v2`."""
    marks = _MARKS[form]
    ends = end if end is not None and form == "v2" else marks.end
    return "".join(f"{marks.roles[turn.role]}{turn.text}{ends}" for turn in turns) + marks.roles["assistant"]


def stop_sequences(form: PromptFormat) -> tuple[str, ...]:
    """Return the texts at which an answer in `form` ends."""
    return () if form == "engine" else _MARKS[form].stop


class StopFilter:
    """Lets an answer's text through up to the first stop sequence, and holds back what may become one."""

    def __init__(self, sequences: Sequence[str]) -> None:
        self._sequences = tuple(sequences)
        self._pending = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Take more `text` and return what can be passed on now."""
        if self.stopped:
            return ""
        self._pending += text
        found = [at for sequence in self._sequences if (at := self._pending.find(sequence)) >= 0]
        if found:
            self.stopped = True
            passed, self._pending = self._pending[: min(found)], ""
            return passed
        keep = max((_overlap_length(self._pending, sequence) for sequence in self._sequences), default=0)
        cut = len(self._pending) - keep
        passed, self._pending = self._pending[:cut], self._pending[cut:]
        return passed

    def flush(self) -> str:
        """Return what was held back and did not become a stop sequence."""
        passed, self._pending = self._pending, ""
        return passed


def _overlap_length(text: str, sequence: str) -> int:
    longest = min(len(text), len(sequence) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(sequence[:size])), 0)
