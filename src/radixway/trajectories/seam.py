"""Where known tokens end and the rest of a text has to be tokenized.

Tokens that the model sampled stay as they are, whatever follows: that is what it saw. Tokens of a prompt were
made from text, and with more text behind them they may come out otherwise (`intern` + `ational`): they stay
only up to a special token, which no tokenizer looks across, or to the last sampled one.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixway.trajectories.alignment import Decoder
from radixway.trajectories.records import Trajectory


def tokens_that_stay(known: Trajectory, decoder: Decoder) -> int:
    """How many of the known tokens are the first ones of any text that goes on from them."""
    floor = 0
    start = 0
    for end, label in known.spans:
        if label.source == "sampled":
            floor = end
        start = end
    special = decoder.special_ids
    ids: Sequence[int] = known.ids
    for at in range(start, floor, -1):
        if ids[at - 1] in special:
            return at
    return floor
