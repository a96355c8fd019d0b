"""Attention of one step's tokens over the paged KV: what to attend to (`Plan`), and how (CPU, anything else).

The tokens of a step stand in one row after another; every request owns a run of rows:

    rows   [ a | b | c | dddddddddddd | eeeeeee ]      a, b, c compute one token each, d and e a chunk
             singles     chunks

A single token sees all of its request's KV, so requests of similar length go through one call, padded to the
longest with page 0. A chunk sees what was computed before it, and itself causally.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from radixway.engine.pool import KVStore

PADDING_PAGES = 32
"""A group of singles may pad this many pages for each member it takes in: about what a call costs."""


class Span(NamedTuple):
    """What one request computes in a step: tokens [before, before + new) of it, their KV going to `pages`."""

    before: int
    new: int
    pages: "array[int]"
    """The request's pages from its first token on."""


@dataclass(slots=True)
class Singles:
    """Rows [start, stop): one new token for each of several requests of similar length."""

    start: int
    stop: int
    pages: Tensor
    """[n * P]: P pages for each of the n requests, shorter ones filled up with page 0."""
    mask: Tensor | None
    """[n, P * page_size], 0 where there is a token and -inf beyond; None if all fill their pages."""


@dataclass(slots=True)
class Chunk:
    """Rows [start, stop): several new tokens of one request, after `before` earlier ones."""

    start: int
    stop: int
    before: int
    pages: Tensor
    """The pages of all its tokens, the new ones included."""


@dataclass(slots=True)
class Plan:
    """Everything attention needs to know about a step, the same for all layers."""

    positions: Tensor
    """[T] int64: each row's place in its own request."""
    slots: Tensor
    """[T] int64: where in the store each row's key and value go."""
    begun: Tensor | None
    """The pages that this step begins and does not fill: what others left in their rest must be numbers."""
    singles: list[Singles]
    chunks: list[Chunk]

    @staticmethod
    def order(span: Span) -> tuple[bool, int]:
        """Sort key: spans must come in this order, so that similar ones are neighbours."""
        return span.new > 1, span.before

    @classmethod
    def make(cls, spans: Sequence[Span], page_size: int, dtype: torch.dtype, device: torch.device) -> "Plan":
        """The plan of a step over `spans`, which are in `order`."""
        lengths = np.array([span.new for span in spans])
        starts = np.concatenate(([0], np.cumsum(lengths)))
        positions = np.arange(starts[-1]) + np.repeat([s.before for s in spans] - starts[:-1], lengths)
        slots = np.empty_like(positions)
        singles, chunks, begun = [], [], []
        for at, span in zip(starts, spans, strict=False):
            rows = slice(at, at + span.new)
            pages = np.frombuffer(span.pages, dtype=np.int32)
            slots[rows] = pages[positions[rows] // page_size].astype(np.int64) * page_size
            full, rest = divmod(span.before + span.new, page_size)
            if rest and full * page_size >= span.before:
                begun.append(span.pages[full])
            if span.new > 1:
                held = full + bool(rest)
                chunks.append(Chunk(rows.start, rows.stop, span.before, _tensor(pages[:held], device)))
        slots += positions % page_size
        count = len(spans) - len(chunks)
        for start, stop in _groups([span.before // page_size + 1 for span in spans[:count]]):
            singles.append(_singles(spans[start:stop], start, page_size, dtype, device))
        fresh = torch.tensor(begun, device=device) if begun else None
        return cls(_tensor(positions, device), _tensor(slots, device), fresh, singles, chunks)


def _groups(pages: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of requests, ascending by their number of `pages`, to go through one call each."""
    groups = []
    start = 0
    for at in range(1, len(pages) + 1):
        if at == len(pages) or (at - start) * (pages[at] - pages[at - 1]) > PADDING_PAGES:
            groups.append((start, at))
            start = at
    return groups


def _singles(
    spans: Sequence[Span], start: int, page_size: int, dtype: torch.dtype, device: torch.device
) -> Singles:
    lengths = np.array([span.before + 1 for span in spans])
    width = -(-int(lengths[-1]) // page_size)
    table = np.zeros((len(spans), width), dtype=np.int64)
    for row, span in zip(table, spans, strict=True):
        held = span.before // page_size + 1
        row[:held] = np.frombuffer(span.pages, dtype=np.int32)[:held]
    beyond = np.arange(width * page_size) >= lengths[:, None]
    mask = None
    if beyond.any():
        mask = _tensor(np.where(beyond, -np.inf, 0.0), device).to(dtype)
    return Singles(start, start + len(spans), _tensor(table.reshape(-1), device), mask)


def _tensor(values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", device: torch.device) -> Tensor:
    wide = values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
    return torch.from_numpy(wide).to(device)


class Attention(Protocol):
    """Stores the new keys and values, and attends. One call per layer."""

    def __call__(self, plan: Plan, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [T, heads, D], k and v [T, kv_heads, D] to [T, heads * D]."""


class CpuAttention:
    """Through torch's flash kernel for CPU, query heads that share a KV head folded into the rows of one.

    Measured against `scaled_dot_product_attention(enable_gqa=True)`, one thread, 32 / 8 heads of 128, µs per
    layer: a token over 1,024 in fp32 2,039 to 783, in bf16 18,728 to 1,153; 128 tokens after 1,024 in fp32
    45,970 to 39,320. The kernel also returns the log-sum-exp, by which parts over disjoint KV merge into one
    result: a chunk attends to what was before it without a mask, and to itself causally.
    """

    def __init__(self, store: KVStore) -> None:
        self._store = store

    def __call__(self, plan: Plan, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attention`."""
        if plan.begun is not None:
            self._store.clear(layer, plan.begun)
        self._store.write(layer, plan.slots, k, v)
        out = torch.empty(q.shape, dtype=q.dtype)
        for singles in plan.singles:
            rows = slice(singles.start, singles.stop)
            out[rows] = self._singles(singles, layer, q[rows])
        for chunk in plan.chunks:
            rows = slice(chunk.start, chunk.stop)
            out[rows] = self._chunk(chunk, layer, q[rows], k[rows], v[rows])
        return out.view(out.shape[0], -1)

    def _singles(self, singles: Singles, layer: int, q: Tensor) -> Tensor:
        n, heads, d = q.shape
        k, v = self._store.gather(layer, singles.pages)
        kv_heads = k.shape[0]
        # KV heads stand where the kernel expects the batch, requests where it expects heads: no copy needed
        q = q.view(n, kv_heads, heads // kv_heads, d).transpose(0, 1)
        k, v = k.view(kv_heads, n, -1, d), v.view(kv_heads, n, -1, d)
        mask = None if singles.mask is None else singles.mask[None, :, None, :]
        return _flash(q, k, v, mask=mask)[0].transpose(0, 1).reshape(n, heads, d)

    def _chunk(self, chunk: Chunk, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n, heads, d = q.shape
        kv_heads = k.shape[1]
        group = heads // kv_heads
        own_k = k.transpose(0, 1).repeat_interleave(group, 0)
        own_v = v.transpose(0, 1).repeat_interleave(group, 0)
        own, own_lse = _flash(q.transpose(0, 1)[None], own_k[None], own_v[None], causal=True)
        if not chunk.before:
            return own[0].transpose(0, 1)
        before = chunk.pages[: -(-chunk.before // self._store.page_size)]
        k, v = self._store.gather(layer, before)[:, :, : chunk.before]
        folded = q.view(n, kv_heads, group, d).permute(1, 2, 0, 3).reshape(1, kv_heads, group * n, d)
        old, old_lse = _flash(folded, k[None], v[None])
        old, old_lse = old.reshape(1, heads, n, d), old_lse.reshape(1, heads, n)
        return merge(old, old_lse, own, own_lse)[0].transpose(0, 1)


def merge(a: Tensor, a_lse: Tensor, b: Tensor, b_lse: Tensor) -> Tensor:
    """Attention over the union of two disjoint sets of keys, from the results over each.

    a, b [..., D] and their log-sum-exps [...]: the weight of each is its share of the exponential sum.
    """
    return torch.lerp(b, a, torch.sigmoid(a_lse - b_lse).to(a.dtype).unsqueeze(-1))


def _flash(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """q [B, H, n, D] over k and v [B, H, m, D]: the result [B, H, n, D] and its log-sum-exp [B, H, n]."""
    result: tuple[Tensor, Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask
    )
    return result


class SdpaAttention:
    """Through `scaled_dot_product_attention`, on any device: pages are gathered, then attended to.

    What CUDA uses. Tests run it on CPU; it has not been run on a GPU yet.
    """

    def __init__(self, store: KVStore) -> None:
        self._store = store

    def __call__(self, plan: Plan, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attention`."""
        if plan.begun is not None:
            self._store.clear(layer, plan.begun)
        self._store.write(layer, plan.slots, k, v)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for singles in plan.singles:
            rows = slice(singles.start, singles.stop)
            n, _, d = q[rows].shape
            keys, values = self._store.gather(layer, singles.pages)
            keys, values = (x.view(x.shape[0], n, -1, d).transpose(0, 1) for x in (keys, values))
            mask = None if singles.mask is None else singles.mask[:, None, None, :]
            out[rows] = scaled_dot_product_attention(
                q[rows].unsqueeze(2), keys, values, attn_mask=mask, enable_gqa=True
            ).squeeze(2)
        for chunk in plan.chunks:
            rows = slice(chunk.start, chunk.stop)
            keys, values = self._store.gather(layer, chunk.pages)[
                :, None, :, : chunk.before + chunk.stop - chunk.start
            ]
            causal = causal_lower_right(chunk.stop - chunk.start, keys.shape[2])
            out[rows] = scaled_dot_product_attention(
                q[rows].transpose(0, 1)[None], keys, values, attn_mask=causal, enable_gqa=True
            )[0].transpose(0, 1)
        return out.view(out.shape[0], -1)


def best_attention(store: KVStore, device: torch.device) -> Attention:
    """The fastest there is for `device`."""
    if device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        return CpuAttention(store)
    return SdpaAttention(store)
