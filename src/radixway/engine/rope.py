"""Rotary position embeddings (Su et al., 2021, arXiv:2104.09864) and the ways to stretch them."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from radixway.engine.errors import UnsupportedArchitectureError


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
        if kind == "llama3":
            return _llama3_frequencies(1.0 / base, rope), 1.0
        if kind == "yarn":
            return _yarn_frequencies(base, rope, head_dim)
    except KeyError as key:
        raise UnsupportedArchitectureError(f"rope_type {kind!r} needs {key} in config.json") from None
    raise UnsupportedArchitectureError(
        f"rope_type {kind!r} is not supported (default, linear, llama3 and yarn are)"
    )


def _llama3_frequencies(inverse: Tensor, rope: Mapping[str, Any]) -> Tensor:
    """Llama 3.1: long wavelengths are divided by `factor`, short ones kept, those between blended."""
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
