"""Truncates threads to what an engine can read, by its own count of tokens if it has one.

The engine is asked only when an estimate on the safe side does not fit.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from radixway.chat.worker.prompt_format import PromptFormat, PromptTurn, truncate_turns
from radixway.chat.worker.upstream_engines import UpstreamEngine

_BYTES_PER_TOKEN = 3
"""Lower than in usual text, so lengths are overestimated and engines never overrun."""
_TRIES = 4
_KNOWN = 4096
_AT_ONCE = 8
_SPARE = 1.05
"""Factor by which a part's length may exceed its share of the whole."""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of `text` on the high side."""
    return len(text.encode()) // _BYTES_PER_TOKEN + 1


class ThreadTruncator:
    """Truncates threads for one engine. Belongs to one event loop."""

    def __init__(self, engine: UpstreamEngine, form: PromptFormat, max_input: int, max_total: int) -> None:
        """`max_input`: tokens of a prompt; `max_total`: with the answer."""
        self._engine = engine
        self._form: PromptFormat = form
        self._max_input = max_input
        self._max_total = max_total
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._capacity = asyncio.Semaphore(_AT_ONCE)

    async def truncate_thread(
        self, turns: Sequence[PromptTurn], new_tokens: int
    ) -> tuple[list[PromptTurn], int]:
        """Return the latest `turns` that fit, and their prompt's length. `new_tokens`: for the answer."""
        guess = sum(estimate_tokens(turn.text) for turn in turns)
        if guess <= self._max_input * 0.99 and guess + new_tokens < self._max_total:
            return list(turns), guess
        used = await self._engine.count_prompt_tokens(turns, self._form)
        if used is not None and used <= self._max_input:
            return list(turns), used
        found = None if used is None else await self._truncate_counted(turns, used)
        if found is None:
            truncated = truncate_turns(turns, self._max_input, estimate_tokens)
            return truncated, min(sum(estimate_tokens(turn.text) for turn in truncated), self._max_input)
        return found

    async def _truncate_counted(
        self, turns: Sequence[PromptTurn], total: int
    ) -> tuple[list[PromptTurn], int] | None:
        """Truncate by counted tokens; None if the engine's counts stop or do not add up. `total`: count of
        the whole prompt."""
        counts = await asyncio.gather(*(self._count_turn_tokens(turn.text) for turn in turns))
        lengths: dict[str, int] = {}
        for turn, length in zip(turns, counts, strict=True):
            if length is None:
                return None
            lengths[turn.text] = length
        between = max((total - sum(lengths[turn.text] for turn in turns)) // len(turns), 0)
        last = turns[-1].text
        per_character = _SPARE * lengths[last] / max(len(last), 1)

        def count(text: str) -> int:
            known = lengths.get(text)
            return between + (int(len(text) * per_character) + 1 if known is None else known)

        budget = self._max_input
        for _ in range(_TRIES):
            truncated = truncate_turns(turns, budget, count)
            used = await self._engine.count_prompt_tokens(truncated, self._form)
            if used is None:
                return None
            if used <= self._max_input:
                return truncated, used
            budget -= used - self._max_input
        return None

    async def _count_turn_tokens(self, text: str) -> int | None:
        """Count the tokens of a turn; counts are cached, since turns come again with each question."""
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        async with self._capacity:
            length = await self._engine.count_tokens(text)
        if length is not None:
            self._known[key] = length
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return length
