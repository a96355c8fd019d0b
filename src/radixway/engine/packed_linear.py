"""Matrix products, with the weight in the layout that is fastest where it lives."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import linear

PACK_PARAMETERS = 2**24
"""Models at least this large have their weights packed on CPU. All weights of two models in fp32, one AVX-512
core, ms per pass, plain / packed:

    rows              1           4           8          16         256
    135M      54 / 60    107 / 62    144 / 89    148 / 84   744 / 677
    5M      2.1 / 2.8   2.8 / 3.1   3.8 / 3.5   4.1 / 5.0     28 / 23

Small models stay in the CPU's cache, where the packed call's fixed 40 µs costs more than it saves."""


class PackedLinear:
    """`x @ weight.T + bias`. Packing copies `weight` [out, in]; a caller with no other use lets go of it."""

    __slots__ = ("_bias", "_packed", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, pack: bool = False) -> None:
        self._packed = pack and _can_pack(weight.device.type, weight.dtype)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, 16) if self._packed else weight
        self._bias = bias

    @property
    def weight(self) -> Tensor:
        """[out, in], exactly as it was given: a copy if it is packed."""
        return self._weight.to_dense() if self._packed else self._weight

    @property
    def bias(self) -> Tensor | None:
        """[out]"""
        return self._bias

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
