"""The tagger of everything but Chinese: an encoder's states and the features of words."""

import numpy as np
import torch
from torch import Tensor, nn

from pii_head.fit import Array, Choices, Example, Tagger, fit
from pii_head.rows import Row
from pii_head.states import WordStates
from pii_head.targets import allowed_tags
from radixway.guard.pii.head import LAYERS
from radixway.guard.pii.words import FEATURES, GAZETTEER_BITS, as_matrix

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

    def arrays(self) -> dict[str, Array]:
        """By the names they have in the file; mean and spread are in the weights."""
        weights = self.states.weight.detach() / self.spread
        bias = self.states.bias.detach() - weights @ self.mean
        parts = np.split(weights.T.numpy(), len(LAYERS))
        named = {
            f"latin_states_{layer}": part.astype(np.float16)
            for layer, part in zip(LAYERS, parts, strict=True)
        }
        features = self.features.weight.detach().T.numpy().astype(np.float16)
        return named | {"latin_features": features, "latin_bias": bias.numpy()}


def fit_latin(rows: list[Row], states: WordStates, choices: Choices) -> dict[str, Array]:
    """The arrays of the file."""
    states.read([row.text for row in rows])
    examples = [_example(row, states) for row in rows if len(states.words(row.text))]
    sample = np.concatenate([states.of(row.text) for row in rows[:: max(1, len(rows) // 3000)]]).astype(
        np.float32
    )
    mean, spread = (
        torch.from_numpy(sample.mean(axis=0)),
        torch.from_numpy(np.maximum(sample.std(axis=0), _LEAST_SPREAD)),
    )
    tagger = fit(lambda: FirstLayer(mean, spread, choices.hidden), examples, choices)
    return _arrays(tagger)


def _arrays(tagger: Tagger) -> dict[str, Array]:
    assert isinstance(tagger.first, FirstLayer)
    return tagger.first.arrays() | tagger.convolutions.arrays("latin")


def _example(row: Row, states: WordStates) -> Example:
    words, bits = states.words(row.text), states.bits(row.text)

    def inputs(blank: bool) -> tuple[Array, ...]:
        return np.asarray(states.of(row.text)), as_matrix(bits & ~GAZETTEER_BITS if blank else bits)

    return Example(allowed_tags(row, words), row.weight, inputs)
