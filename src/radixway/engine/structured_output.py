"""Constraints in the engine: what the sampler asks of a grammar, and nothing of how one works.

`grammar.py` makes the real ones; `ReasonerGrammar` lets a model think first.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixway.engine.errors import GrammarStateError

if TYPE_CHECKING:
    from radixway.engine.engine_request import EngineRequest

NOTHING_ALLOWED = "no token can be chosen: the constraint and the other parameters rule all of them out"


class TokenMatcher(Protocol):
    """Where one answer stands in its grammar."""

    @property
    def is_finished(self) -> bool:
        """Whether the answer is whole and nothing can follow."""

    def allowed_tokens(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        """Which tokens [vocabulary] may come next; all of `end_ids` where the answer may end.

        Raises GrammarStateError.
        """

    def accept_token(self, token_id: int) -> None:
        """Go on by a token that was allowed and does not end the answer."""


class StructuredOutputGrammar(Protocol):
    """A constraint that requests share."""

    def make_matcher(self) -> TokenMatcher:
        """A matcher at the beginning of an answer."""


def mask_disallowed(scores: Tensor, requests: "Sequence[EngineRequest]") -> dict[int, str]:
    """Rule out, in place, what the requests' grammars do not allow next: [n, vocabulary] with a row for each.

    By row: what to say if no token is left, for the rows that have a grammar.
    """
    rows = [row for row, request in enumerate(requests) if request.matcher is not None]
    if not rows:
        return {}
    failures = dict.fromkeys(rows, NOTHING_ALLOWED)
    allowed = np.zeros((len(rows), scores.shape[1]), dtype=np.bool_)
    for place, row in enumerate(rows):
        request = requests[row]
        assert request.matcher is not None
        try:
            allowed[place] = request.matcher.allowed_tokens(request.stop_ids)
        except GrammarStateError as error:
            failures[row] = str(error)
    ruled_out = ~torch.from_numpy(allowed).to(scores.device)
    for place, row in enumerate(rows):  # in place: gathering the rows would copy them twice
        scores[row].masked_fill_(ruled_out[place], -torch.inf)
    return failures


class ReasonerGrammar:
    """A grammar for what follows a model's thinking, which itself is free.

    The thinking ends with the text `closes`; it has begun in the prompt (`inside`), or begins if the first
    token is `opens`.
    """

    def __init__(
        self,
        grammar: StructuredOutputGrammar,
        token_bytes: Mapping[int, bytes],
        *,
        opens: int | None,
        closes: str,
        inside: bool,
    ) -> None:
        self._grammar = grammar
        self._token_bytes = token_bytes
        self._opens = opens
        self._closes = closes.encode()
        self._inside = inside

    def make_matcher(self) -> "ReasonerMatcher":
        """A matcher at the beginning of an answer."""
        return ReasonerMatcher(
            self._grammar.make_matcher(), self._token_bytes, self._opens, self._closes, self._inside
        )


class ReasonerMatcher:
    """Allows everything but an end while the model thinks, then what the grammar allows."""

    def __init__(
        self,
        after: TokenMatcher,
        token_bytes: Mapping[int, bytes],
        opens: int | None,
        closes: bytes,
        inside: bool,
    ) -> None:
        self._after = after
        self._token_bytes = token_bytes
        self._opens = opens
        self._closes = closes
        self._inside = inside
        self._tail = b""
        self._anything: NDArray[np.bool_] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the answer is whole and nothing can follow."""
        return not self._inside and self._after.is_finished

    def allowed_tokens(self, end_ids: frozenset[int]) -> NDArray[np.bool_]:
        """Which tokens may come next."""
        if self._inside:
            return self._allow_thinking(end_ids)
        allowed = self._after.allowed_tokens(end_ids)
        if self._opens is not None:
            allowed[self._opens] = True
        return allowed

    def accept_token(self, token_id: int) -> None:
        """Go on by a token; what a token has beyond the end of the thinking is passed over."""
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
