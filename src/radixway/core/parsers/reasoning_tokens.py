"""`ReasoningTokenCounter`: how many tokens of an answer are reasoning."""

from collections.abc import Iterable

from radixway.core.parsers.parts import CLOSES, OPENS, ThinkingPlace


class ReasoningTokenCounter:
    """Counts the tokens of one answer, which begins at `place`, up to and with `</think>`, as SGLang does.

    An answer that begins before its reasoning and does not open any has none.
    """

    def __init__(self, place: ThinkingPlace) -> None:
        self.count = 0
        self._place = place
        self._tail = b""
        self._undecided = 0

    def count_tokens(self, tokens: Iterable[bytes]) -> int:
        """Read `tokens`, the next ones by their bytes, and return the count so far."""
        for token in tokens:
            if self._place == "after":
                break
            self._tail += token
            self._undecided += 1
            if self._place == "before":
                self._look_for_start()
            if self._place == "inside":
                self.count += self._undecided
                self._undecided = 0
                if CLOSES.encode() in self._tail:
                    self._place = "after"
                self._tail = self._tail[1 - len(CLOSES) :]
        return self.count

    def _look_for_start(self) -> None:
        start, opens = self._tail.lstrip(), OPENS.encode()
        if start.startswith(opens):
            self._place = "inside"
        elif not opens.startswith(start):
            self._place = "after"
