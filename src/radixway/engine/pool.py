"""KV pages: who has which (`PagePool`, plain numbers), and the tensors themselves (`KVStore`)."""

import math
from array import array
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from radixway.engine.architecture import Architecture


class PagePool:
    """Hands out page ids 1 … total. Page 0 belongs to nobody: it pads tables to a common length."""

    def __init__(self, total: int) -> None:
        if total < 1:
            raise ValueError(f"a pool has at least one page, not {total}")
        self.total = total
        self._free = list(range(total, 0, -1))

    @property
    def free(self) -> int:
        """Pages that nobody has."""
        return len(self._free)

    def take(self, count: int) -> "array[int]":
        """`count` pages, which the caller must have seen to be free."""
        if count > len(self._free):
            raise ValueError(f"{count} pages wanted, {len(self._free)} free: evict first")
        at = len(self._free) - count
        pages = array("i", reversed(self._free[at:]))
        del self._free[at:]
        return pages

    def give_back(self, pages: Iterable[int]) -> None:
        """Pages that the caller will not read again."""
        self._free.extend(pages)

    def check(self, *held: Iterable[int]) -> None:
        """Every page is free or in exactly one of `held`: free + cached + in use = total."""
        pages = [*self._free, *(page for pages in held for page in pages)]
        if sorted(pages) != list(range(1, self.total + 1)):
            counts = np.bincount(np.array(pages, dtype=np.int64), minlength=self.total + 1)
            wrong = {page: int(n) for page, n in enumerate(counts) if n != (page > 0)}
            raise AssertionError(f"pages not owned exactly once (page: owners): {wrong}")


class KVStore:
    """Keys and values of every layer, in pages.

    A layer is [2 (key, value), kv_heads, pages, page_size, D]: with heads outermost, gathering pages copies
    whole rows of `page_size * D`, and the result is [kv_heads, tokens, D] as attention wants it.
    """

    def __init__(
        self, shape: Architecture, pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.page_size = page_size
        size = (2, shape.kv_heads, pages + 1, page_size, shape.head_dim)
        self._layers = [_zeros(size, dtype, device) for _ in range(shape.layers)]
        self._flat = [layer.view(2, shape.kv_heads, -1, shape.head_dim) for layer in self._layers]

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """Store k and v [T, kv_heads, D] at `slots` [T] (page * page_size + place in the page)."""
        keys, values = self._flat[layer]
        keys.index_copy_(1, slots, k.transpose(0, 1))
        values.index_copy_(1, slots, v.transpose(0, 1))

    def clear(self, layer: int, pages: Tensor) -> None:
        """Zero `pages` [n]: attention multiplies what is in unused places by 0, and 0 * NaN is NaN."""
        self._layers[layer].index_fill_(2, pages, 0)

    def gather(self, layer: int, pages: Tensor) -> Tensor:
        """A copy of `pages` [n] in their order: [2, kv_heads, n * page_size, D]."""
        rows = self._layers[layer].index_select(2, pages)
        return rows.view(2, rows.shape[1], -1, rows.shape[-1])

    @staticmethod
    def bytes_per_token(shape: Architecture, dtype: torch.dtype) -> int:
        """Bytes that one token's keys and values take over all layers."""
        return 2 * shape.layers * shape.kv_size * dtype.itemsize


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that take memory only once they are written (numpy's `calloc`), where the device allows it.

    Numbers they must be, see `KVStore.clear`.
    """
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(size)
