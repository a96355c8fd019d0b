"""From a text to all of its tokens: the known ones, and behind them what a tokenizer makes of the rest.

Tokens that the model sampled stay as they are, whatever follows: that is what it saw. Tokens of a prompt were
made from text, and with more text behind them they may come out otherwise (`intern` + `ational`): they stay
only up to a special token, which no tokenizer looks across, or to the last sampled one.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixway.trajectories.foreign import Encoder
from radixway.trajectories.reading import step_back
from radixway.trajectories.records import Label, Trajectory, join_spans
from radixway.trajectories.store import Found, TrajectoryStore


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A whole text's tokens, and what they are worth as training data."""

    trajectory: Trajectory
    known: int
    """Tokens, from the beginning, that come from a record; the rest was made from text just now."""

    @property
    def coverage(self) -> float:
        """The share of the tokens that come from a record."""
        return self.known / len(self.trajectory.ids) if self.trajectory.ids else 0.0

    @property
    def exact(self) -> bool:
        """Were these the very tokens that the sampler saw and made, and is it sure whose?"""
        return bool(self.known) and self.known == len(self.trajectory.ids) and not self.trajectory.ambiguous


def retrieve(store: TrajectoryStore, text: str, found: Found, encoder: Encoder | None) -> Retrieved:
    """All of `text` as tokens, of which `found` is known. Raises ValueError for want of a tokenizer."""
    raw = text.encode("utf-8", "surrogatepass")
    known = store.trajectory(found)
    if found.text == len(raw):
        return Retrieved(known, len(known.ids))
    if encoder is None:
        raise ValueError("part of this text was never seen, and there is no tokenizer for it")
    stays = tokens_that_stay(known, encoder)
    if stays < found.tokens:
        found = Found(step_back(found.place, stays), found.ambiguous)
        known = store.trajectory(found)
    ids = encoder.encode(raw[found.text :].decode("utf-8", "surrogatepass"))
    count = len(known.ids)
    known.ids.extend(ids)
    known.logprobs.extend([0.0] * len(ids))
    if ids:
        known.spans = join_spans(known.spans, ((len(ids), Label("retokenized", 0)),))
    return Retrieved(known, count)


def tokens_that_stay(known: Trajectory, encoder: Encoder) -> int:
    """How many of the known tokens are the first ones of any text that goes on from them."""
    floor = 0
    start = 0
    for end, label in known.spans:
        if label.source == "sampled":
            floor = end
        start = end
    special = encoder.special_ids
    ids = known.ids
    for at in range(start, floor, -1):
        if ids[at - 1] in special:
            return at
    return floor
