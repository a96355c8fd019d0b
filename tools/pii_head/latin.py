"""The tagger of everything but Chinese: an encoder's states and the features of words."""

import numpy as np
import torch
from torch import Tensor, nn

from pii_head.calibration import read_rows, shifted, shifts
from pii_head.fit import Array, Choices, Example, Tagger, fit
from pii_head.rows import Row
from pii_head.states import NoStates, WordStates
from pii_head.targets import allowed_tags
from radixway.semantics.encoders.base import Floats
from radixway.semantics.guard.pii.sequence_tagger import feature_matrix
from radixway.semantics.guard.pii.word_features import FEATURES, GAZETTEER_BITS

_LEAST_SPREAD = 1e-2


class FirstLayer(nn.Module):
    """Vectors of words from standardised states and features."""

    def __init__(self, mean: Tensor, spread: Tensor, hidden: int) -> None:
        super().__init__()
        self.mean, self.spread = mean, spread
        self.states = nn.Linear(len(mean), hidden)
        self.features = nn.Linear(len(FEATURES), hidden, bias=False)

    def forward(self, states: Tensor, features: Tensor) -> Tensor:
        return self.states((states - self.mean) / self.spread) + self.features(features)  # type: ignore[no-any-return]

    def arrays(self, layers: tuple[int, ...]) -> dict[str, Array]:
        """By the names they have in the file; mean and spread are in the weights."""
        weights = self.states.weight.detach() / self.spread
        bias = self.states.bias.detach() - weights @ self.mean
        parts = np.split(weights.T.numpy(), len(layers)) if layers else []
        named = {
            f"latin_states_{layer}": part.astype(np.float16)
            for layer, part in zip(layers, parts, strict=True)
        }
        features = self.features.weight.detach().T.numpy().astype(np.float16)
        return named | {"latin_features": features, "latin_bias": bias.numpy()}


def fit_latin(
    rows: list[Row], calibration: list[Row], states: WordStates | NoStates, choices: Choices
) -> dict[str, Array]:
    """The arrays of the file."""
    states.read([row.text for row in rows + calibration])
    examples = [_example(row, states) for row in rows if len(states.words(row.text))]
    sample = np.concatenate([states.of(row.text) for row in rows[:: max(1, len(rows) // 3000)]])
    mean, spread = sample.mean(axis=0, dtype=np.float32), sample.std(axis=0, dtype=np.float32)
    known = torch.from_numpy(mean), torch.from_numpy(np.maximum(spread, _LEAST_SPREAD))
    tagger = fit(lambda: FirstLayer(*known, choices.hidden), examples, choices)
    arrays = _arrays(tagger, states.layers)
    return arrays | {"latin_out_bias": calibrated(arrays["latin_out_bias"], calibration, tagger, states)}


def calibrated(bias: Array, rows: list[Row], tagger: Tagger, states: WordStates | NoStates) -> Array:
    """[tags]: the last layer's, with what calibration adds to each type."""

    def read(row: Row) -> tuple[list[int], list[int], Floats] | None:
        words = states.words(row.text)
        if not len(words):
            return None
        likely = tagger.likelihoods(_example(row, states).inputs(False))
        return words.begin.tolist(), words.end.tolist(), likely

    by = shifts(read_rows(rows, read))
    print(f"added to logits: {by}", flush=True)
    return shifted(bias, by)


def _arrays(tagger: Tagger, layers: tuple[int, ...]) -> dict[str, Array]:
    assert isinstance(tagger.first, FirstLayer)
    return tagger.first.arrays(layers) | tagger.convolutions.arrays("latin")


def _example(row: Row, states: WordStates | NoStates) -> Example:
    words, bits = states.words(row.text), states.bits(row.text)

    def inputs(blank: bool) -> tuple[Array, ...]:
        seen = bits & ~GAZETTEER_BITS if blank else bits
        return np.asarray(states.of(row.text)), feature_matrix(seen, len(FEATURES))

    return Example(allowed_tags(row, words), row.weight, inputs)
