"""Reasoning in answers: where it may be, a grammar of what follows it, and its number of tokens."""

from collections.abc import Sequence

from radixway.core.parsers import CLOSES, OPENS, AnswerFormat, MessageDelta, ReasoningTokenCounter
from radixway.core.parsers.parts import ThinkingPlace
from radixway.core.tokenizer import Tokenizer
from radixway.engine.structured_output import ReasonerGrammar, StructuredOutputGrammar


def wrap_reasoner_grammar(
    tokenizer: Tokenizer, grammar: StructuredOutputGrammar | None, place: ThinkingPlace
) -> StructuredOutputGrammar | None:
    """Return `grammar` for what follows the reasoning of an answer that begins at `place`."""
    opens = tokenizer.backend.token_to_id(OPENS) if place == "before" else None
    if grammar is None or (place != "inside" and opens is None):
        return grammar
    return ReasonerGrammar(
        after=grammar,
        token_bytes=tokenizer.token_bytes,
        opens=opens,
        closes=CLOSES.encode(),
        inside=place == "inside",
    )


def reads_special_tokens(tokenizer: Tokenizer, reading: AnswerFormat) -> bool:
    """Return whether answers are parsed by special tokens, which text leaves out by default."""
    special_ids = tokenizer.special_ids
    return any(tokenizer.backend.token_to_id(marker) in special_ids for marker in reading.markers)


class ReasoningCounts:
    """The reasoning tokens of each answer of a request, all of which begin at `place`."""

    def __init__(self, tokenizer: Tokenizer, place: ThinkingPlace) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._place = place
        self._counters: dict[int, ReasoningTokenCounter] = {}

    def add_tokens(self, index: int, token_ids: Sequence[int]) -> int:
        """Read `token_ids`, the next of answer `index`, and return how many of its tokens are reasoning."""
        if self._place == "after":
            return 0
        counter = self._counters.setdefault(index, ReasoningTokenCounter(self._place))
        return counter.count_tokens([self._token_bytes[each] for each in token_ids])

    @property
    def total(self) -> int:
        """Of all answers."""
        return sum(counter.count for counter in self._counters.values())


class ReasoningBuffer:
    """Holds the reasoning of streamed answers back until it has ended: SGLang's `stream_reasoning: false`."""

    def __init__(self) -> None:
        self._held: dict[int, str] = {}

    def hold_reasoning(self, index: int, delta: MessageDelta, *, last: bool) -> None:
        """Leave all reasoning of answer `index` in the `delta` in which something follows it, or the last."""
        held = self._held.pop(index, "") + delta.reasoning
        ended = last or delta.content or delta.calls
        delta.reasoning = held if ended else ""
        if not ended:
            self._held[index] = held
