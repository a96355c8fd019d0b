"""Attention of one step's tokens over the paged KV, as `AttentionMetadata` lays it out."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from radixway.engine.attention_metadata import AttentionMetadata, DecodeGroup, PrefillChunk
from radixway.engine.kv_store import KVStore, PageIds


class AttentionBackend(Protocol):
    """Stores the new keys and values, and attends. One call per layer."""

    shares: bool
    """Whether it reads `AttentionMetadata.shared_groups`; if not, metadata must be built without them."""

    def __call__(self, plan: AttentionMetadata, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [T, heads, D], k and v [T, kv_heads, D] to [T, heads * D]."""


AttentionState = tuple[Tensor, Tensor]
"""The result over some of the keys: [n, heads, D], and its log-sum-exp [n, heads], by which parts merge."""


class CpuAttention:
    """Through torch's flash kernel for CPU, query heads that share a KV head folded into the rows of one.

    Measured against `scaled_dot_product_attention(enable_gqa=True)`, one thread, 32 / 8 heads of 128, µs per
    layer: a token over 1,024 in fp32 2,039 to 783, in bf16 18,728 to 1,153; 128 tokens after 1,024 in fp32
    45,970 to 39,320. The kernel also returns the log-sum-exp, by which parts over disjoint KV merge into one
    result: a chunk attends to what was before it without a mask, and to itself causally; and pages that many
    requests share are read once, by a product of matrices instead of one with a vector for each.
    """

    shares = True

    def __init__(self, store: KVStore) -> None:
        self._store = store

    def __call__(self, plan: AttentionMetadata, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store `k` and `v` of `layer`, then attend as `plan` says, see `AttentionBackend`."""
        if plan.started_pages is not None:
            self._store.zero_pages(layer, plan.started_pages)
        k, v = self._store.write_kv(layer, plan.slots, k, v)
        out, lse = torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[:2])
        for singles in plan.decode_groups:
            rows = slice(singles.start, singles.stop)
            out[rows], lse[rows] = self._attend_decodes(singles, layer, q[rows])
        for chunk in plan.prefill_chunks:
            rows = slice(chunk.start, chunk.stop)
            if chunk.stop - chunk.start == 1:
                out[rows], lse[rows] = self._attend_single(chunk, layer, q[rows])
            else:
                out[rows], lse[rows] = self._attend_chunk(chunk, layer, q[rows], k[rows], v[rows])
        for shared in plan.shared_groups:
            part = self._attend_cached(layer, shared.pages, q[shared.rows])
            own = out[shared.rows], lse[shared.rows]
            out[shared.rows], lse[shared.rows] = merge_attention_states(own, part)
        return out.view(out.shape[0], -1)

    def _attend_decodes(self, singles: DecodeGroup, layer: int, q: Tensor) -> AttentionState:
        n, heads, d = q.shape
        k, v = self._store.gather_kv(layer, singles.pages)
        kv_heads = k.shape[0]
        # KV heads stand where the kernel expects the batch, requests where it expects heads: no copy needed
        q = q.view(n, kv_heads, heads // kv_heads, d).transpose(0, 1)
        k, v = k.view(kv_heads, n, -1, d), v.view(kv_heads, n, -1, d)
        mask = None if singles.mask is None else singles.mask[None, :, None, :]
        out, lse = _flash_attention(q, k, v, mask=mask)
        return out.transpose(0, 1).reshape(n, heads, d), lse.transpose(0, 1).reshape(n, heads)

    def _attend_single(self, chunk: PrefillChunk, layer: int, q: Tensor) -> AttentionState:
        _, heads, d = q.shape
        k, v = self._store.gather_kv(layer, chunk.pages, chunk.before + 1)
        out, lse = _flash_attention(q.view(1, k.shape[0], -1, d), k[None], v[None])
        return out.reshape(1, heads, d), lse.reshape(1, heads)

    def _attend_chunk(
        self, chunk: PrefillChunk, layer: int, q: Tensor, k: Tensor, v: Tensor
    ) -> AttentionState:
        group = q.shape[1] // k.shape[1]
        k = k.transpose(0, 1).repeat_interleave(group, 0)
        v = v.transpose(0, 1).repeat_interleave(group, 0)
        out, lse = _flash_attention(q.transpose(0, 1)[None], k[None], v[None], causal=True)
        own = out[0].transpose(0, 1), lse[0].T
        if not chunk.before:
            return own
        return merge_attention_states(own, self._attend_cached(layer, chunk.pages, q, chunk.before))

    def _attend_cached(
        self, layer: int, pages: PageIds, q: Tensor, tokens: int | None = None
    ) -> AttentionState:
        """Attend with all of q [n, heads, D] over all `tokens` of `pages`: no mask, the group folded into the
        rows."""
        n, heads, d = q.shape
        k, v = self._store.gather_kv(layer, pages, tokens)
        kv_heads = k.shape[0]
        group = heads // kv_heads
        folded = q.view(n, kv_heads, group, d).permute(1, 2, 0, 3).reshape(1, kv_heads, group * n, d)
        out, lse = _flash_attention(folded, k[None], v[None])
        return out.reshape(heads, n, d).transpose(0, 1), lse.reshape(heads, n).T


def merge_attention_states(a: AttentionState, b: AttentionState) -> AttentionState:
    """Merge `a` and `b`, attention over two disjoint sets of keys, into attention over their union.

    The weight of each is its share of the exponential sum.
    """
    (a_out, a_lse), (b_out, b_lse) = a, b
    share = torch.sigmoid(a_lse - b_lse).to(a_out.dtype).unsqueeze(-1)
    return torch.lerp(b_out, a_out, share), torch.logaddexp(a_lse, b_lse)


def _flash_attention(
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

    shares = False

    def __init__(self, store: KVStore) -> None:
        # With it comes torch's compiler, more than a second of CPU time that engines on CPU do not spend.
        from torch.nn.attention.bias import causal_lower_right

        self._store = store
        self._causal_lower_right = causal_lower_right

    def __call__(self, plan: AttentionMetadata, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store `k` and `v` of `layer`, then attend as `plan` says, see `AttentionBackend`."""
        if plan.started_pages is not None:
            self._store.zero_pages(layer, plan.started_pages)
        self._store.write_kv(layer, plan.slots, k, v)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for singles in plan.decode_groups:
            rows = slice(singles.start, singles.stop)
            n, _, d = q[rows].shape
            keys, values = self._store.gather_kv(layer, singles.pages)
            keys, values = (x.view(x.shape[0], n, -1, d).transpose(0, 1) for x in (keys, values))
            mask = None if singles.mask is None else singles.mask[:, None, None, :]
            out[rows] = scaled_dot_product_attention(
                q[rows].unsqueeze(2), keys, values, attn_mask=mask, enable_gqa=True
            ).squeeze(2)
        for chunk in plan.prefill_chunks:
            rows = slice(chunk.start, chunk.stop)
            new = chunk.stop - chunk.start
            keys, values = self._store.gather_kv(layer, chunk.pages, chunk.before + new)[:, None]
            causal = self._causal_lower_right(new, keys.shape[2])
            out[rows] = scaled_dot_product_attention(
                q[rows].transpose(0, 1)[None], keys, values, attn_mask=causal, enable_gqa=True
            )[0].transpose(0, 1)
        return out.view(out.shape[0], -1)


def select_attention_backend(store: KVStore, device: torch.device) -> AttentionBackend:
    """The fastest there is for `device`."""
    if device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        return CpuAttention(store)
    return SdpaAttention(store)
