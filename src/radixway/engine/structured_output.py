"""Constraints in the engine: the interface between the sampler and a grammar.

`grammar_compiler.py` compiles the real ones; `ReasonerGrammar` lets a model think first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class TokenMatcher(Protocol):
    """The position of one answer in its grammar."""

    @property
    def is_finished(self) -> bool:
        """True if the answer is complete and nothing can follow."""

    def allowed_tokens(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        """A mask [vocabulary] of the tokens that may come next; all of `end_ids` if the answer may end.

        Raises GrammarStateError.
        """

    def accept_token(self, token_id: int) -> None:
        """Advance by `token_id`, which was allowed and does not end the answer."""


class StructuredOutputGrammar(Protocol):
    """A constraint that requests share."""

    def make_matcher(self) -> TokenMatcher:
        """A matcher at the beginning of an answer."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ReasonerGrammar:
    """A grammar for what follows a model's thinking, which itself is free.

    The thinking ends with the text `closes`; it has begun in the prompt (`inside`), or begins if the first
    token is `opens`.
    """

    after: StructuredOutputGrammar
    token_bytes: Mapping[int, bytes]
    opens: int | None
    closes: bytes
    inside: bool

    def make_matcher(self) -> "ReasonerMatcher":
        """A matcher at the beginning of an answer."""
        return ReasonerMatcher(self)


class ReasonerMatcher:
    """Allows everything but an end while the model thinks, then what the grammar allows."""

    def __init__(self, grammar: ReasonerGrammar) -> None:
        self._after = grammar.after.make_matcher()
        self._token_bytes = grammar.token_bytes
        self._opens = grammar.opens
        self._closes = grammar.closes
        self._inside = grammar.inside
        self._tail = b""
        self._anything: NDArray[np.bool_] | None = None

    @property
    def is_finished(self) -> bool:
        """True if the answer is complete and nothing can follow."""
        return not self._inside and self._after.is_finished

    def allowed_tokens(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        """A mask [vocabulary] of the tokens that may come next, `end_ids` only after the thinking."""
        if self._inside:
            return self._allow_thinking(end_ids)
        allowed = self._after.allowed_tokens(end_ids)
        if self._opens is not None:
            allowed[self._opens] = True
        return allowed

    def accept_token(self, token_id: int) -> None:
        """Advance by `token_id`; what a token has beyond the end of the thinking is ignored."""
        opens, self._opens = self._opens, None
        if not self._inside and token_id == opens:
            self._inside = True
        elif not self._inside:
            self._after.accept_token(token_id)
        else:
            self._tail += self._token_bytes[token_id]
            self._inside = self._closes not in self._tail
            self._tail = self._tail[-len(self._closes) :]

    def _allow_thinking(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        if self._anything is None:
            self._anything = np.ones_like(self._after.allowed_tokens(end_ids))
            self._anything[list(end_ids)] = False
        return self._anything
