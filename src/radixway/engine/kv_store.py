"""The tensors of the KV cache: keys and values of every layer, in pages, and the formats of a vector."""

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from radixway.engine.architecture import ModelArchitecture

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
        """Return True if each vector has a scale."""
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
    """Return the value of each of the 256 bytes; on CPU a lookup takes a third of the conversion's time."""
    return torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(device, dtype)


PageIds = Tensor | slice
"""Pages of the store: their ids [n], or the first and the one after the last of neighbours."""


class KVStore:
    """Keys and values of every layer, in pages.

    A layer is [2 (key, value), kv_heads, pages, page_size, D]: with heads outermost, gathering pages copies
    whole rows of `page_size * D`, and the result is [kv_heads, tokens, D] as attention wants it. `kv_dtype`
    says how a vector is stored; if that takes a scale, the scales are a second array of D = 1.
    """

    def __init__(
        self,
        shape: ModelArchitecture,
        pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
        kv_dtype: KVDtype = "auto",
    ) -> None:
        self.page_size = page_size
        self.device = device
        self._format = KVFormat(kv_dtype, dtype)
        size = (2, shape.kv_heads, pages + 1, page_size)
        layers = range(shape.layers)
        self._data = [
            _lazy_zeros((*size, shape.head_dim), self._format.storage_dtype, device) for _ in layers
        ]
        self._scales = [
            _lazy_zeros((*size, 1), torch.float32, device) if self._format.is_scaled else None for _ in layers
        ]
        self.page_bytes = self.bytes_per_token(shape, dtype, kv_dtype) * page_size
        """Bytes of one page over all layers, scales included."""
        self.layers = shape.layers
        self.layer_token_bytes = self.page_bytes // page_size // shape.layers
        """Bytes of one token in one layer, scales included."""

    def write_kv(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store k and v [T, kv_heads, D] at `slots` [T] (page * page_size + place in the page).

        Returns them as they will be read: attending to that and to nothing finer, an answer does not depend
        on which of its tokens were cached.
        """
        read = []
        for kind, x in enumerate((k, v)):
            data, scale = self._format.pack_vectors(x)
            _as_slots(self._data[layer][kind]).index_copy_(1, slots, data.transpose(0, 1))
            scales = self._scales[layer]
            if scales is not None and scale is not None:
                _as_slots(scales[kind]).index_copy_(1, slots, scale.transpose(0, 1))
            read.append(self._format.unpack_vectors(data, scale))
        return read[0], read[1]

    def zero_pages(self, layer: int, pages: Tensor) -> None:
        """Zero `pages` [n]: attention multiplies what is in unused places by 0, and 0 * NaN is NaN."""
        for part in self._layer_arrays(layer):
            part.index_fill_(2, pages, 0)

    def gather_kv(self, layer: int, pages: PageIds, tokens: int | None = None) -> Tensor:
        """The first `tokens` (None: all) of `pages`, in their order: [2, kv_heads, tokens, D].

        A copy, unless they are neighbours: then it is the store itself, to be read only.
        """
        parts = self._layer_arrays(layer)
        if isinstance(pages, slice):
            if tokens is None:
                tokens = (pages.stop - pages.start) * self.page_size
            start = pages.start * self.page_size
            data, *scale = (part.flatten(2, 3).narrow(2, start, tokens) for part in parts)
            return self._format.unpack_vectors(data, scale[0] if scale else None)
        if tokens is not None:
            pages = pages[: -(-tokens // self.page_size)]
        data, *scale = (part.index_select(2, pages).flatten(2, 3) for part in parts)
        return self._format.unpack_vectors(data, scale[0] if scale else None)[:, :, :tokens]

    def read_pages(self, pages: Tensor) -> Tensor:
        """Copy whole `pages` [n] as they are stored: bytes [n, page_bytes], on the device."""
        rows = torch.empty(len(pages), self.page_bytes, dtype=torch.uint8, device=self.device)
        for part, columns in self._page_columns(rows):
            columns.copy_(part.index_select(1, pages).transpose(0, 1))
        return rows

    def write_pages(self, pages: Tensor, rows: Tensor) -> None:
        """Fill `pages` [n] with bytes [n, page_bytes] that `read_pages` gave for them or for others."""
        for part, columns in self._page_columns(rows):
            part.index_copy_(1, pages, columns.transpose(0, 1))

    def token_slots(self, pages: "array[int]", first: int, stop: int) -> Tensor:
        """The slots of tokens [first, stop) of a request, [stop - first]; `pages` are all of its pages."""
        size = self.page_size
        pages = pages[first // size : -(-stop // size)]  # a copy: it has to stay free to grow
        table = np.array(pages, dtype=np.int64)
        places = np.arange(first, stop)
        slots = table[places // size - first // size] * size + places % size
        return torch.from_numpy(slots).to(self.device)

    def read_tokens(self, layer: int, slots: Tensor, out: Tensor) -> None:
        """Copy the `slots` [n] of `layer`, as stored, into `out`: bytes [n * layer_token_bytes]."""
        for part, columns in self._token_columns(layer, out, len(slots)):
            if self.device.type == "cpu":
                torch.index_select(part, 1, slots, out=columns)
            else:
                columns.copy_(part.index_select(1, slots))

    def write_tokens(self, layer: int, slots: Tensor, data: Tensor) -> None:
        """Fill `slots` [n] of `layer` with bytes that `read_tokens` gave for them or for others."""
        for part, columns in self._token_columns(layer, data, len(slots)):
            part.index_copy_(1, slots, columns.to(self.device))

    def zero_tail(self, pages: "array[int]", stop: int) -> None:
        """Zero the page in which a request's tokens end at `stop`, unless they fill it (see `zero_pages`)."""
        if stop % self.page_size:
            page = torch.tensor([pages[stop // self.page_size]], device=self.device)
            for layer in range(self.layers):
                self.zero_pages(layer, page)

    @staticmethod
    def bytes_per_token(shape: ModelArchitecture, dtype: torch.dtype, kv_dtype: KVDtype = "auto") -> int:
        """Bytes of one token's keys and values over all layers of `shape`."""
        return 2 * shape.layers * shape.kv_heads * KVFormat(kv_dtype, dtype).vector_bytes(shape.head_dim)

    def _layer_arrays(self, layer: int) -> list[Tensor]:
        scales = self._scales[layer]
        return [self._data[layer]] if scales is None else [self._data[layer], scales]

    def _token_columns(self, layer: int, data: Tensor, tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Every array of a layer as [2 * kv_heads, slots, words], and its place in `data`: [2 * kv_heads,
        tokens, words]."""
        at = 0
        for part in self._layer_arrays(layer):
            part = _as_words(part.flatten(2, 3).flatten(0, 1))
            heads, _, words = part.shape
            size = heads * tokens * words * part.element_size()
            yield part, data[at : at + size].view(part.dtype).view(heads, tokens, words)
            at += size

    def _page_columns(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Every array as [2 * kv_heads, pages, words], and its place in `rows`: [n, 2 * kv_heads, words].

        Words are 8 bytes where all sizes allow it: copied four times as fast as bytes.
        """
        parts = [
            part.view(torch.uint8).flatten(3).flatten(0, 1)
            for layer in range(len(self._data))
            for part in self._layer_arrays(layer)
        ]
        if all(part.shape[2] % 8 == 0 for part in parts):
            parts, rows = [part.view(torch.int64) for part in parts], rows.view(torch.int64)
        at = 0
        for part in parts:
            heads, words = part.shape[0], part.shape[2]
            yield part, rows[:, at : at + heads * words].view(-1, heads, words)
            at += heads * words


def _as_words(part: Tensor) -> Tensor:
    """View `part` [..., X] as 8- or 4-byte words, which copy faster."""
    size = part.shape[-1] * part.element_size()
    return part.view(torch.int64 if size % 8 == 0 else torch.int32 if size % 4 == 0 else torch.uint8)


def _as_slots(part: Tensor) -> Tensor:
    """View [heads, pages, page_size, X] as [heads, slots, X]."""
    return part.flatten(1, 2)


def _lazy_zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros that take memory only when written (numpy's `calloc`), where the device allows.

    They must be zeros, see `KVStore.zero_pages`.
    """
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(size)
