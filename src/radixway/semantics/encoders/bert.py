"""BERT's forward pass in numpy, straight from the safetensors: exact, and in need of nothing else.

Post-layer-norm encoder of Devlin et al. 2018 with absolute positions and the exact GELU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radixway.semantics.encoders.base import EncoderError, Floats, Ints
from radixway.semantics.encoders.model_files import BertConfig


@dataclass(slots=True, frozen=True)
class LayerNormWeights:
    """Scale and shift after normalisation, [size] each."""

    scale: Floats
    shift: Floats


@dataclass(slots=True, frozen=True)
class LinearWeights:
    """`x @ weight + bias`: [inputs, outputs] and [outputs]."""

    weight: Floats
    bias: Floats


@dataclass(slots=True, frozen=True)
class BertLayer:
    """A layer's weights."""

    qkv: LinearWeights
    """Queries, keys and values side by side: [size, 3 · size]."""
    out: LinearWeights
    attention_norm: LayerNormWeights
    up: LinearWeights
    down: LinearWeights
    norm: LayerNormWeights


@dataclass(slots=True, frozen=True)
class BertWeights:
    """The encoder's weights, without its pooler."""

    words: Floats
    """[vocabulary, size]"""
    positions: Floats
    """[positions, size], the first token type already added."""
    norm: LayerNormWeights
    layers: tuple[BertLayer, ...]


def read_bert(path: Path, config: BertConfig) -> BertWeights:
    """The weights in a safetensors file, as float32. Raises EncoderError for one missing or misshapen."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read: {error}") from error
    prefix = next(
        (p for p in ("", "bert.", "model.") if p + "embeddings.word_embeddings.weight" in tensors), ""
    )

    def take(name: str, *shape: int) -> Floats:
        tensor = tensors.get(prefix + name)
        if tensor is None:
            raise EncoderError(f"{path}: there is no tensor {name}; it is not a BERT")
        if shape and tensor.shape != shape:
            raise EncoderError(f"{path}: {name} has shape {tensor.shape}, config.json says {shape}")
        return np.ascontiguousarray(tensor, np.float32)

    def linear(*names: str, inputs: int, outputs: int) -> LinearWeights:
        weights = [take(f"{name}.weight", outputs, inputs) for name in names]
        biases = [take(f"{name}.bias", outputs) for name in names]
        return LinearWeights(np.ascontiguousarray(np.concatenate(weights).T), np.concatenate(biases))

    def norm(name: str) -> LayerNormWeights:
        return LayerNormWeights(take(f"{name}.weight", config.size), take(f"{name}.bias", config.size))

    def layer(index: int) -> BertLayer:
        at, size, inner = f"encoder.layer.{index}.", config.size, config.inner
        heads = [f"{at}attention.self.{part}" for part in ("query", "key", "value")]
        return BertLayer(
            qkv=linear(*heads, inputs=size, outputs=size),
            out=linear(f"{at}attention.output.dense", inputs=size, outputs=size),
            attention_norm=norm(f"{at}attention.output.LayerNorm"),
            up=linear(f"{at}intermediate.dense", inputs=size, outputs=inner),
            down=linear(f"{at}output.dense", inputs=inner, outputs=size),
            norm=norm(f"{at}output.LayerNorm"),
        )

    types = take("embeddings.token_type_embeddings.weight")
    return BertWeights(
        words=take("embeddings.word_embeddings.weight"),
        positions=take("embeddings.position_embeddings.weight") + types[0],
        norm=norm("embeddings.LayerNorm"),
        layers=tuple(layer(index) for index in range(config.layers)),
    )


class NumpyBert:
    """Runs one window at a time; holds no state, so any thread may."""

    precision = "fp32"

    def __init__(self, weights: BertWeights, config: BertConfig) -> None:
        self._weights = weights
        self._config = config

    def run_window(self, ids: Ints, layers: Sequence[int]) -> list[Floats]:
        """States of `layers`, in their order, for the ids of one window: [n, size] each."""
        weights, epsilon = self._weights, self._config.norm_epsilon
        states = _layer_norm(weights.words[ids] + weights.positions[: len(ids)], weights.norm, epsilon)
        wanted: dict[int, Floats] = {}
        for number, layer in enumerate(weights.layers, start=1):
            attended = _self_attention(states, layer, self._config.heads)
            states = _layer_norm(states + attended, layer.attention_norm, epsilon)
            inner = _gelu(states @ layer.up.weight + layer.up.bias)
            states = _layer_norm(states + inner @ layer.down.weight + layer.down.bias, layer.norm, epsilon)
            if number in layers:
                wanted[number] = states
        return [wanted[number] for number in layers]


def _self_attention(states: Floats, layer: BertLayer, heads: int) -> Floats:
    """Return self-attention over all of [n, size], projected back."""
    length, size = states.shape
    projected = (states @ layer.qkv.weight + layer.qkv.bias).reshape(length, 3, heads, size // heads)
    query, key, value = projected.transpose(1, 2, 0, 3)  # [heads, n, head size] each
    scores = query @ key.transpose(0, 2, 1) * np.float32((size // heads) ** -0.5)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed: Floats = (scores @ value).transpose(1, 0, 2).reshape(length, size)
    return mixed @ layer.out.weight + layer.out.bias


def _layer_norm(states: Floats, norm: LayerNormWeights, epsilon: float) -> Floats:
    centred: Floats = states - states.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    deviation: Floats = np.sqrt(variance + np.float32(epsilon))
    return centred / deviation * norm.scale + norm.shift


def _gelu(x: Floats) -> Floats:
    return x * np.float32(0.5) * (1 + _erf(x * np.float32(2**-0.5)))


_ERF_ABOVE = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_BELOW = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def _erf(x: Floats) -> Floats:
    """The error function to float32's precision: the rational approximation on [-4, 4] that Eigen uses."""
    x = np.clip(x, -4, 4)
    square = x * x
    return x * _polynomial(square, _ERF_ABOVE) / _polynomial(square, _ERF_BELOW)


def _polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += np.float32(coefficient)
    return total
