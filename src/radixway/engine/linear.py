"""Matrix products, with the weight in the layout that is fastest where it lives."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import linear

PACK_ELEMENTS = 2**19
"""Weights at least this large are packed on CPU. All weights of a 135M model in fp32 on AVX-512, ms per pass,
 plain / packed: 1 row 54 / 60, 4 rows 107 / 62, 16 rows 148 / 84, 256 rows 744 / 677. Smaller
weights stay in the CPU's cache, where the packed call's fixed 40 µs costs more than it saves."""


class Linear:
    """`x @ weight.T + bias`. Packing copies `weight` [out, in]; a caller with no other use lets go of it."""

    __slots__ = ("_bias", "_packed", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._packed = weight.numel() >= PACK_ELEMENTS and _can_pack(weight.device.type, weight.dtype)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, 16) if self._packed else weight
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """`x` [rows, in] to [rows, out]."""
        if self._packed:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
            return product
        return linear(x, self._weight, self._bias)


@cache
def _can_pack(device: str, dtype: torch.dtype) -> bool:
    """Whether this build of torch has oneDNN's packed weights (private operators) for these."""
    if device != "cpu":
        return False
    try:
        weight, x = torch.ones(8, 16, dtype=dtype), torch.ones(2, 16, dtype=dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, 16)
        product = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return bool((product == 16).all())
