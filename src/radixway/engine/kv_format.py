"""The formats of a key or value vector in the pool: unchanged, or in eight bits."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

KVDtype = Literal["auto", "fp8", "int8"]

_LARGEST_FP8 = torch.finfo(torch.float8_e4m3fn).max


@dataclass(slots=True, frozen=True)
class KVFormat:
    """Packs vectors of `compute` for the pool, and unpacks them for attention.

    - `auto`: as they are.
    - `fp8`: e4m3 (arXiv:2209.05433) without a scale: 3 bits of mantissa, magnitudes from 2**-9 to 448; larger
      ones become 448.
    - `int8`: 255 steps between -max and max of each vector (one token, one head), and max / 127 in float32.
    """

    name: KVDtype
    compute: torch.dtype

    @property
    def storage_dtype(self) -> torch.dtype:
        """The dtype of the pool; fp8 is stored as plain bytes, because few operators know it."""
        return {"auto": self.compute, "fp8": torch.uint8, "int8": torch.int8}[self.name]

    @property
    def is_scaled(self) -> bool:
        """True if each vector has a scale beside it."""
        return self.name == "int8"

    def vector_bytes(self, size: int) -> int:
        """Bytes of one vector of `size` numbers."""
        return size * self.storage_dtype.itemsize + (torch.float32.itemsize if self.is_scaled else 0)

    def pack_vectors(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """x [..., D] as `stored` [..., D], and the scales [..., 1] if there are any."""
        if self.name == "auto":
            return x, None
        if self.name == "fp8":
            small = x.clamp(-_LARGEST_FP8, _LARGEST_FP8).to(torch.float8_e4m3fn)  # NaN without the clamp
            return small.view(torch.uint8), None
        scale = x.abs().amax(-1, keepdim=True).float().div_(127)
        steps = (x.float() / scale.clamp_min(torch.finfo(torch.float32).tiny)).round_()
        return steps.to(torch.int8), scale

    def unpack_vectors(self, data: Tensor, scale: Tensor | None) -> Tensor:
        """Unpack `data` with its `scale` into vectors of dtype `compute`."""
        if self.name == "fp8":
            table = _fp8_values(self.compute, data.device)
            return table.index_select(0, data.flatten().int()).view(data.shape)
        if scale is not None:
            return (data * scale).to(self.compute)
        return data


@cache
def _fp8_values(dtype: torch.dtype, device: torch.device) -> Tensor:
    """What each of the 256 bytes means. On CPU looking it up takes a third of the time of converting."""
    return torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(device, dtype)
