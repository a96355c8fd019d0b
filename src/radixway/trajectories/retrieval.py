"""From a text to all of its tokens: the known ones, and behind them what a tokenizer makes of the rest.

A whole answer stays the tokens that it was sampled as, whatever follows: that is what the model saw. Tokens
of a prompt were made from text, and with more text behind them they may come out otherwise (`intern` +
`ational`): they stay only up to a special token, which no tokenizer looks across, or to the end of the last
answer. So does an answer that the text leaves in the middle.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from radixway.trajectories.store import TrajectoryMatch, TrajectoryStore
from radixway.trajectories.text_match import (
    TextPosition,
    is_mid_answer,
    truncate_position,
    within_character,
)
from radixway.trajectories.token_records import TokenLabel, Trajectory, join_spans
from radixway.trajectories.token_run import last_token_in
from radixway.trajectories.tokenizer_adapter import TokenizerAdapter


@dataclass(frozen=True, slots=True)
class RetrievedTokens:
    """A whole text's tokens, and their records as training data."""

    trajectory: Trajectory
    known: int
    """Tokens, from the beginning, that come from a record; the rest was made from text just now."""

    @property
    def coverage(self) -> float:
        """The share of the tokens that come from a record."""
        return self.known / len(self.trajectory.ids) if self.trajectory.ids else 0.0

    @property
    def exact(self) -> bool:
        """Were these the very tokens that the sampler saw and made, each with what is known of it?

        And is it sure which record was meant, and that no log-probability is missing?
        """
        trajectory = self.trajectory
        is_known = bool(self.known) and self.known == len(trajectory.ids)
        return is_known and not trajectory.ambiguous and all(map(isfinite, trajectory.logprobs))


class TokenRetrieval:
    """Finds the tokens of one text; only `encode_rest` takes long, and it may run in any thread."""

    def __init__(
        self, store: TrajectoryStore, text: str, found: TrajectoryMatch, encoder: TokenizerAdapter | None
    ) -> None:
        """`found` is known of `text`. Raises ValueError if there is more of it and no tokenizer."""
        raw = text.encode("utf-8", "surrogatepass")
        if found.text < len(raw):
            if encoder is None:
                raise ValueError("part of this text was never seen, and there is no tokenizer for it")
            found = stable_match(found, encoder, raw)
        self._known = store.trajectory(found)
        self._rest = raw[found.text :].decode("utf-8", "surrogatepass")
        self._encoder = encoder

    def encode_rest(self) -> list[int]:
        """The tokens of what is not known. Raises ValueError for text that cannot be tokenized."""
        if not self._rest or self._encoder is None:
            return []
        return self._encoder.encode(self._rest, first=not self._known.ids)

    def join_tokens(self, ids: list[int]) -> RetrievedTokens:
        """Join the known tokens and `ids`, which `encode_rest` gave."""
        known, count = self._known, len(self._known.ids)
        known.ids.extend(ids)
        known.logprobs.extend([0.0] * len(ids))
        if ids:
            known.spans = join_spans(known.spans, ((len(ids), TokenLabel("retokenized", 0)),))
        return RetrievedTokens(known, count)


def stable_match(found: TrajectoryMatch, encoder: TokenizerAdapter, text: bytes) -> TrajectoryMatch:
    """The part of what was found of `text` whose tokens do not depend on the text that follows."""
    for tokens in _stable_ends(found.place, encoder.special_ids):
        place = truncate_position(found.place, max(tokens, found.answered))
        if not within_character(text, place.text):
            break
    return TrajectoryMatch(place, found.ambiguous)


def _stable_ends(place: TextPosition, special_ids: frozenset[int]) -> Iterator[int]:
    """Yield the numbers of tokens that may stay, the most first: up to where an answer ends, or a special
    token, which is the last one. Reads no more of the path than is asked for."""
    goes_on = is_mid_answer(place)
    node, end, before = place.node, place.strides, place.tokens
    while (parent := node.parent) is not None:
        run, strides, chunks = node.payload, end - parent.end, node.payload.chunks
        before -= max(strides - chunks, 0)
        while strides > chunks:
            label, begin = run.label_at(strides - 1), max(run.label_start(strides - 1), chunks)
            is_sampled = label.source == "sampled"
            if is_sampled and not goes_on:
                yield before + strides - chunks
            goes_on = is_sampled
            if special := last_token_in(node.key, begin, strides, special_ids):
                yield before + special - chunks
                return
            strides = begin
        node, end = parent, parent.end
    yield 0
