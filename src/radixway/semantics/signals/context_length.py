"""How long a conversation is, in tokens as near as can be told without its model's tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from radixway.core.config.semantic import ContextSignalConfig
from radixway.semantics.signals.base import SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion

_BYTES_PER_TOKEN = 4
"""UTF-8 bytes: English words are about that, a Chinese character (three bytes) is slightly under a token."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


class ContextLengthDetector:
    """The estimate, and the ranges that it is in: `min_tokens` ≤ it ≤ `max_tokens`."""

    kind = "context"
    needs_encoding = False

    def __init__(self, ranges: Sequence[ContextSignalConfig]) -> None:
        self._ranges = tuple(ranges)

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """Yield the estimate under the empty name, then every range that it is in."""
        tokens = estimate_tokens(question.whole or question.text)
        yield SignalValue("context", "", float(tokens))
        for each in self._ranges:
            if each.min_tokens <= tokens and (each.max_tokens is None or tokens <= each.max_tokens):
                yield SignalValue("context", each.name, float(tokens))
