"""The transformer: one decoder for the Llama, Qwen2 and Qwen3 families, over packed tokens.

A step's tokens stand one after another, [T], whichever requests they belong to; only attention, through its
`AttentionMetadata`, knows where one request ends. So linears see no padding, and a chunk of prefill uses the
weights that are read for decode anyway.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import embedding, silu

from radixway.engine.architecture import ModelArchitecture
from radixway.engine.errors import UnsupportedArchitectureError
from radixway.engine.linear_layers import PackedLinear, Quantization


class RotaryEmbedding:
    """Turns query and key vectors by their positions.

    Pairs are (x[i], x[i + D/2]), as in Hugging Face checkpoints:

        out = x * cos + roll(x, D/2) * sin      with the first half of `sin` negated beforehand
    """

    def __init__(
        self,
        rope: Mapping[str, Any],
        head_dim: int,
        length: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        inverse, scale = compute_frequencies(rope, head_dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        self._half = head_dim // 2
        self._cos = torch.cat((cos, cos), -1).to(device, dtype)
        self._sin = torch.cat((-sin, sin), -1).to(device, dtype)

    def cos_sin_at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The (cos, sin) rows of `positions` [T], each [T, 1, D]: looked up once a step, for all layers."""
        return self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1)

    def rotate(self, x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
        """`x` [T, heads, D], turned."""
        cos, sin = cos_sin
        return x.roll(self._half, -1).mul_(sin).addcmul_(x, cos)


def compute_frequencies(rope: Mapping[str, Any], head_dim: int) -> tuple[Tensor, float]:
    """Inverse frequencies [head_dim / 2] in float32, and the factor on cos and sin.

    The formulas, and the order of roundings, are those of `transformers.modeling_rope_utils`.
    """
    kind = rope["rope_type"]
    base = rope["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    try:
        if kind == "default":
            return 1.0 / base, 1.0
        if kind == "linear":
            return 1.0 / base / rope["factor"], 1.0
        if kind == "factors":
            return 1.0 / base / torch.tensor(rope["factors"]), 1.0
        if kind == "llama3":
            return _llama3_frequencies(1.0 / base, rope), 1.0
        if kind == "yarn":
            return _yarn_frequencies(base, rope, head_dim)
    except KeyError as key:
        raise UnsupportedArchitectureError(f"rope_type {kind!r} needs {key} in config.json") from None
    message = f"rope_type {kind!r} is not supported (default, linear, llama3 and yarn are)"
    raise UnsupportedArchitectureError(message)


def _llama3_frequencies(inverse: Tensor, rope: Mapping[str, Any]) -> Tensor:
    """Llama 3.1: long wavelengths are divided by `factor`, short ones unchanged, those between blended."""
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    original = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / inverse
    stretched = torch.where(wavelength > original / low, inverse / factor, inverse)
    smooth = (original / wavelength - low) / (high - low)
    blended = (1 - smooth) * stretched / factor + smooth * stretched
    between = (wavelength >= original / high) & (wavelength <= original / low)
    return torch.where(between, blended, stretched)


def _yarn_frequencies(base: Tensor, rope: Mapping[str, Any], dim: int) -> tuple[Tensor, float]:
    """YaRN (Peng et al., 2023, arXiv:2309.00071): stretch slow dimensions, keep fast ones, ramp between."""
    theta, factor = rope["rope_theta"], rope["factor"]
    original = rope["original_max_position_embeddings"]

    def dimension(rotations: float) -> float:
        """The dimension that makes this many rotations over the original context."""
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(rope.get("beta_fast") or 32), dimension(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / (max(high - low, 0.001))).clamp(0, 1)
    inverse = 1.0 / (factor * base) * ramp + 1.0 / base * (1 - ramp)
    return inverse, _yarn_scale(rope, factor)


def _yarn_scale(rope: Mapping[str, Any], factor: float) -> float:
    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    given = rope.get("attention_factor")
    if given is not None:
        return float(given)
    mscale, all_dim = rope.get("mscale"), rope.get("mscale_all_dim")
    return scale(mscale) / scale(all_dim) if mscale and all_dim else scale(1.0)


AttendFunction = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [T, heads, D], k and v [T, kv_heads, D]) to [T, heads * D]; stores k and v on the way."""


@dataclass(slots=True)
class DecoderLayer:
    """Weights of one decoder layer. Query, key and value are one product, gate and up are another."""

    input_norm: Tensor
    qkv: PackedLinear
    qk_norm: Tensor | None
    """[heads + kv_heads, D]: the query norm's weight for each query head, then the key norm's."""
    output: PackedLinear
    post_norm: Tensor
    gate_up: PackedLinear
    down: PackedLinear


@dataclass(slots=True)
class TransformerModel:
    """Weights and the forward pass. No state between calls: KV lives in the pool that `attend` writes to."""

    architecture: ModelArchitecture
    embedding: Tensor
    layers: list[DecoderLayer]
    norm: Tensor
    head: PackedLinear
    rope: RotaryEmbedding
    eps: Tensor
    """The norms' epsilon, a float32 scalar on the model's device."""
    quantization: Quantization = "none"
    """How the layers' weights are stored."""

    def forward(self, tokens: Tensor, positions: Tensor, attend: AttendFunction) -> Tensor:
        """Final hidden states [T, hidden] of `tokens` [T] at `positions` [T]."""
        shape = self.architecture
        eps = self.eps
        x = embedding(tokens, self.embedding)
        cos_sin = self.rope.cos_sin_at(positions)
        for index, layer in enumerate(self.layers):
            qkv = layer.qkv(rms_norm(x, layer.input_norm, eps))
            qk = qkv[:, : shape.q_size + shape.kv_size].view(-1, shape.heads + shape.kv_heads, shape.head_dim)
            if layer.qk_norm is not None:
                qk = rms_norm(qk, layer.qk_norm, eps)
            qk = self.rope.rotate(qk, cos_sin)
            v = qkv[:, shape.q_size + shape.kv_size :].view(-1, shape.kv_heads, shape.head_dim)
            x = x + layer.output(attend(index, qk[:, : shape.heads], qk[:, shape.heads :], v))
            gate, up = layer.gate_up(rms_norm(x, layer.post_norm, eps)).chunk(2, -1)
            x = x + layer.down(silu(gate).mul_(up))
        return x

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [rows, vocabulary] of final hidden states [rows, hidden]."""
        return self.head(rms_norm(hidden, self.norm, self.eps)).float()


def rms_norm(x: Tensor, weight: Tensor, eps: Tensor) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension, in float32 inside (arXiv:1910.07467).

    On CPU torch has no kernel for it: its composition takes 22 to 31 µs for a few rows, this one 13 to 20.
    """
    norm = vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scale = torch.addcmul(eps, norm, norm, value=1 / x.shape[-1]).rsqrt_()
    return (x * scale).mul_(weight).to(x.dtype)
