"""Small synthetic traces for users who have none, the same ones every time.

What they are like is made up too. They tell policies apart; they say nothing about anybody's traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import msgspec

from radixway.routing.simulator.trace import TraceLine

_BLOCK = 64
"""Tokens a block."""


class _SamplePrompt:
    """A prompt that others go on from. It grows by whole blocks, and no two grow alike."""

    def __init__(self, names: Iterator[int], blocks: list[int] | None = None) -> None:
        self._names = names
        self._blocks = blocks or []

    def extend_prompt(self, tokens: int) -> _SamplePrompt:
        more = [next(self._names) for _ in range(max(1, tokens // _BLOCK))]
        return _SamplePrompt(self._names, self._blocks + more)

    def to_trace_line(self, at_s: float, output_tokens: int, session: int) -> TraceLine:
        return TraceLine(
            timestamp=round(at_s * 1e3, 1),
            input_length=len(self._blocks) * _BLOCK,
            output_length=output_tokens,
            hash_ids=self._blocks,
            block_size=_BLOCK,
            session=session,
        )


def _chat_trace(draw: Random) -> Iterator[TraceLine]:
    """People who talk to six assistants, each of whom begins every conversation alike."""
    names = count()
    assistants = [_SamplePrompt(names).extend_prompt(draw.randint(600, 2400)) for _ in range(6)]
    for session in range(220):
        prompt, at_s = draw.choice(assistants), draw.uniform(0, 420)
        for _ in range(min(14, 1 + int(draw.expovariate(0.22)))):
            prompt = prompt.extend_prompt(draw.randint(40, 400))
            answer = draw.randint(30, 350)
            yield prompt.to_trace_line(at_s, answer, session)
            prompt = prompt.extend_prompt(answer)
            at_s += 4 + draw.expovariate(1 / 18)


def _agent_trace(draw: Random) -> Iterator[TraceLine]:
    """Agents of three kinds with long instructions, who call again as soon as a tool has answered."""
    names = count()
    kinds = [_SamplePrompt(names).extend_prompt(draw.randint(6_000, 9_000)) for _ in range(3)]
    for session in range(70):
        prompt, at_s = draw.choice(kinds).extend_prompt(500), draw.uniform(0, 300)
        for _ in range(draw.randint(6, 22)):
            answer = draw.randint(40, 200)
            yield prompt.to_trace_line(at_s, answer, session)
            prompt = prompt.extend_prompt(answer + draw.randint(100, 1600))
            at_s += 2 + draw.expovariate(1 / 4)


def _document_trace(draw: Random) -> Iterator[TraceLine]:
    """Short questions about forty long documents, of which few are asked about often."""
    names = count()
    documents = [_SamplePrompt(names).extend_prompt(draw.randint(6_000, 20_000)) for _ in range(40)]
    often = [1 / (rank + 1) for rank in range(len(documents))]
    for session in range(700):
        (document,) = draw.choices(documents, often)
        question = document.extend_prompt(draw.randint(30, 120))
        yield question.to_trace_line(draw.uniform(0, 500), draw.randint(60, 300), session)


_MAKERS: dict[str, Callable[[Random], Iterator[TraceLine]]] = {
    "chats": _chat_trace,
    "agents": _agent_trace,
    "documents": _document_trace,
}

SAMPLES: tuple[str, ...] = tuple(_MAKERS)
"""Their names."""


def make_sample_trace(name: str) -> bytes:
    """A trace as a file holds it. Raises KeyError for a name that is none of `SAMPLES`."""
    lines = sorted(_MAKERS[name](Random(name)), key=lambda line: line.timestamp)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
