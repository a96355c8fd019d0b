"""The linear layers: weights in the layout that is fastest where they live, or in eight or four bits.

Bits are rounded through torchao; activations stay as they are. Embedding, norms and the output projection are
left in full: little of a large model, and what rounding hurts most.
"""

import importlib
import logging
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

from radixway.engine.errors import EngineError

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
    """Return whether torch has oneDNN's packed weights (private operators) for these."""
    if device != "cpu":
        return False
    try:
        weight, x = torch.ones(8, 16, dtype=dtype), torch.ones(2, 16, dtype=dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, 16)
        product = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return bool((product == 16).all())


Quantization = Literal["none", "int8wo", "int4wo"]

GROUP_SIZE = 32
"""Weights of one row that share a scale and a zero point in int4wo; the smallest group there is."""


class QuantizedLinear(PackedLinear):
    """`x @ weight.T + bias` with a rounded weight.

    µs for 576 to 3,072, one AVX-512 core with bfloat16, by rows:

        float32       1       16      256      bfloat16      1       16      256
        full        330    1,050    8,000      full        330    2,850   35,900
        int8wo    1,760    2,580    9,400      int8wo      750    3,620   36,760
                                               int4wo      190    1,100   16,700

    int8wo saves memory and costs time: torchao unpacks the weight on CPU in every call. int4wo has a kernel
    of its own for bfloat16 (the one for float32 takes 6,000 µs for a row), so a model in float32 goes through
    that. Both are rounded once, when they are loaded.
    """

    __slots__ = ("_compute",)

    def __init__(self, weight: Tensor, bias: Tensor | None, quantization: Quantization) -> None:
        """Round `weight` as `quantization` says. Raises EngineError if that is impossible here."""
        self._compute = torch.bfloat16 if quantization == "int4wo" else weight.dtype
        super().__init__(_quantize_weight(weight.to(self._compute), quantization), bias)

    @property
    def weight(self) -> Tensor:
        """[out, in], as it is computed with."""
        unit = torch.eye(self._weight.shape[1], dtype=self._compute, device=self._weight.device)
        return linear(unit, self._weight).T

    def __call__(self, x: Tensor) -> Tensor:
        """`x` [rows, in] to [rows, out]."""
        product = linear(x.to(self._compute), self._weight).to(x.dtype)
        return product if self._bias is None else product + self._bias


def _quantize_weight(weight: Tensor, quantization: Quantization) -> Tensor:
    """Return the weight as a torchao tensor, which `linear` multiplies with."""
    columns = weight.shape[1]
    if quantization == "int4wo" and weight.device.type != "cpu":
        raise EngineError(f"int4wo runs on CPU only, and this is {weight.device.type}; use int8wo")
    if quantization == "int4wo" and columns % GROUP_SIZE:
        raise EngineError(f"int4wo needs layer inputs in multiples of {GROUP_SIZE}; one has {columns}")
    layer = torch.nn.Linear(columns, weight.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    ao = _import_torchao("torchao.quantization")
    if quantization == "int8wo":
        ao.quantize_(layer, ao.Int8WeightOnlyConfig())
    else:
        int4 = _import_torchao("torchao.prototype.quantization.int4")
        config = int4.PrototypeInt4WeightOnlyConfig(group_size=GROUP_SIZE, set_inductor_config=False)
        ao.quantize_(layer, config)
    return layer.weight


def _import_torchao(module: str) -> Any:
    """Import a module of torchao without its messages about kernels for other machines."""
    quiet = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EngineError(f"{error}: pip install 'radixway[quantization]' for weights in few bits") from None
    finally:
        logging.disable(quiet)
