"""The latest requests as a trace, read from their journals: what `radixway record` would have written."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import count
from struct import Struct

import msgspec

from radixway.core.pipeline import TokenUsage
from radixway.core.telemetry import Journal
from radixway.routing import PairChoice, RoutingRequest, WorkerChoice
from radixway.routing.simulator import TraceLine

_pack = Struct("<Q").pack


def build_recent_trace(journals: Iterable[Journal]) -> bytes:
    """Build a trace of those `journals` whose prompts routing knew, and that were answered; empty where there
    are none.
    """
    known = [(journal, *found) for journal in journals if (found := _prompt_and_length(journal)) is not None]
    sizes = Counter(prompt.block_tokens for _, prompt, _ in known)
    if not sizes:
        return b""
    size = sizes.most_common(1)[0][0]
    began = min(journal.began_at for journal, prompt, _ in known if prompt.block_tokens == size)
    names, sessions = _IdNumbers(), _IdNumbers()
    lines = [
        TraceLine(
            timestamp=round((journal.began_at - began) * 1e3, 3),
            input_length=prompt.tokens,
            output_length=answer_tokens,
            hash_ids=[names.number_of(_pack(block & (2**64 - 1))) for block in prompt.blocks],
            block_size=size,
            session=None if prompt.session is None else sessions.number_of(prompt.session.encode()),
        )
        for journal, prompt, answer_tokens in known
        if prompt.block_tokens == size
    ]
    lines.sort(key=lambda line: line.timestamp)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


class _IdNumbers:
    """Small numbers for things, in the order in which they come."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._numbers: dict[bytes, int] = {}
        self._next = count()

    def number_of(self, thing: bytes) -> int:
        digest = blake2b(thing, digest_size=16, key=self._key).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = next(self._next)
        return number


def _prompt_and_length(journal: Journal) -> tuple[RoutingRequest, int] | None:
    """A request's prompt and how long its answer was."""
    prompt: RoutingRequest | None = None
    answered = 0
    for _, _, said in journal.entries:
        if isinstance(said, WorkerChoice):
            prompt = said.request
        elif isinstance(said, PairChoice):
            prompt = said.answers.request
        elif isinstance(said, TokenUsage):
            answered += said.completion_tokens
    if prompt is None or not prompt.blocks or not answered:
        return None
    return prompt, answered
