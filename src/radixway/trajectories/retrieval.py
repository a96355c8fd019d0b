"""From a text to all of its tokens: the known ones, and behind them what a tokenizer makes of the rest.

A whole answer stays the tokens that it was sampled as, whatever follows: that is what the model saw. Tokens
of a prompt were made from text, and with more text behind them they may come out otherwise (`intern` +
`ational`): they stay only up to a special token, which no tokenizer looks across, or to the end of the last
answer. So does an answer that the text leaves in the middle.
"""

from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite

from radixway.trajectories.store import TrajectoryMatch, TrajectoryStore
from radixway.trajectories.text_match import is_mid_answer, truncate_position, within_character
from radixway.trajectories.token_records import Spans, TokenLabel, Trajectory, join_spans
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
            found = stable_match(store, found, encoder, raw)
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


def stable_match(
    store: TrajectoryStore, found: TrajectoryMatch, encoder: TokenizerAdapter, text: bytes
) -> TrajectoryMatch:
    """The part of what was found of `text` whose tokens do not depend on the text that follows."""
    known = store.trajectory(found)
    special, ids = encoder.special_ids, known.ids
    for end in _answer_ends(known.spans, is_complete=not is_mid_answer(found.place)):
        stays = next((at for at in range(len(ids), end, -1) if ids[at - 1] in special), end)
        place = truncate_position(found.place, stays)
        if not within_character(text, place.text):
            break
    return TrajectoryMatch(place, found.ambiguous)


def _answer_ends(spans: Spans, *, is_complete: bool) -> list[int]:
    """Return where answers end, last first, and 0; not the last token's end unless `is_complete`."""
    ends = [0]
    for (upto, label), after in zip_longest(spans, spans[1:]):
        goes_on = after is not None and after[1].source == "sampled"
        if label.source == "sampled" and not goes_on and (is_complete or after is not None):
            ends.append(upto)
    return ends[::-1]
