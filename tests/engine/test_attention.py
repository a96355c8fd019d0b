"""Attention over pages, single tokens and chunks together, against the formula written out."""

import math
from array import array

import pytest
import torch
from torch import Tensor

from radixway.engine.architecture import ModelArchitecture, parse_architecture
from radixway.engine.attention import CpuAttention, SdpaAttention, merge_attention_states
from radixway.engine.attention_metadata import AttentionMetadata, QuerySpan, _group_decodes
from radixway.engine.kv_store import KVStore
from radixway.engine.page_pool import PagePool
from support.driving import random_tokens

PAGE = 4
CPU = torch.device("cpu")


def shape(heads: int, kv_heads: int, head_dim: int) -> ModelArchitecture:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 10,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }
    return parse_architecture(config, frozenset())


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k / √D) v for the last tokens q [n, H, D] of the sequence whose k and v [m, KV, D] are."""
    n, heads, d = q.shape
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q, k) / math.sqrt(d)
    places = torch.arange(k.shape[0])
    scores[:, places[None, :] > places[-n:, None]] = -torch.inf
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), v).reshape(n, -1)


@pytest.mark.parametrize("kind", [CpuAttention, SdpaAttention])
@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 2, 16), (6, 1, 8), (3, 3, 32)])
def test_a_mixed_step_attends_as_the_formula_says(
    kind: type, neighbours: bool, heads: int, kv_heads: int, head_dim: int
) -> None:
    torch.manual_seed(0)
    store = KVStore(shape(heads, kv_heads, head_dim), 600, PAGE, torch.float32, CPU)
    attention, pool = kind(store), PagePool(600)
    pool.allocate_pages(7)
    lengths = [(0, 1), (1, 1), (17, 1), (3, 1), (250, 1), (16, 1), (0, 2), (0, 33), (5, 9), (64, 16), (63, 2)]
    sequences = [
        [torch.randn(before + new, count, head_dim) for count in (heads, kv_heads, kv_heads)]
        for before, new in lengths
    ]
    pages = [array("i", some_pages(pool, before + new, neighbours)) for before, new in lengths]
    for layer in (0, 1):
        for (before, _), (_, k, v), held in zip(lengths, sequences, pages, strict=True):
            slots = torch.tensor(
                [held[at // PAGE] * PAGE + at % PAGE for at in range(before)], dtype=torch.int64
            )
            store.write_kv(layer, slots, k[:before], v[:before])
        spans = [QuerySpan(*lengths[i], pages[i]) for i in range(len(lengths))]
        plan = AttentionMetadata.build_metadata(spans, PAGE, torch.float32, CPU, share=kind.shares)
        in_place = [chunk.before for chunk in plan.prefill_chunks if chunk.stop - chunk.start == 1]
        assert in_place == ([250] if neighbours else [])
        order = plan.order
        q, k, v = (torch.cat([sequences[i][part][lengths[i][0] :] for i in order]) for part in range(3))
        ours = attention(plan, layer, q, k, v)
        theirs = torch.cat([written_out(sequences[i][0][lengths[i][0] :], *sequences[i][1:]) for i in order])
        assert (ours - theirs).abs().max() < 1e-5


def some_pages(pool: PagePool, tokens: int, neighbours: bool) -> list[int]:
    """Pages that lie together, or pages in no order."""
    pages = list(pool.allocate_pages(-(-tokens // PAGE)))
    return pages if neighbours else [pages[i] for i in torch.randperm(len(pages)).tolist()]


def test_positions_and_slots_follow_each_request() -> None:
    spans = [QuerySpan(5, 1, array("i", [9, 3])), QuerySpan(2, 4, array("i", [7, 8]))]
    plan = AttentionMetadata.build_metadata(spans, PAGE, torch.float32, CPU)
    assert plan.positions.tolist() == [5, 2, 3, 4, 5]
    assert plan.slots.tolist() == [3 * 4 + 1, 7 * 4 + 2, 7 * 4 + 3, 8 * 4, 8 * 4 + 1]
    assert plan.started_pages is not None and plan.started_pages.tolist() == [8]


def test_pages_that_are_begun_and_not_filled_are_known() -> None:
    def begun(*spans: tuple[int, int]) -> list[int] | None:
        pages = array("i", [7, 8, 9])
        plan = AttentionMetadata.build_metadata(
            [QuerySpan(*span, pages) for span in spans], PAGE, torch.float32, CPU
        )
        return None if plan.started_pages is None else plan.started_pages.tolist()

    assert begun((3, 1), (7, 1)) == begun((1, 2)) == begun((0, 8)) == begun((5, 3)) is None
    assert begun((0, 1)) == begun((0, 3)) == [7]
    assert begun((4, 1)) == begun((1, 4)) == begun((0, 7)) == begun((4, 3)) == [8]
    assert begun((8, 1), (0, 9)) == [9, 9]


def test_requests_of_similar_length_share_a_call_and_padding_is_bounded() -> None:
    assert _group_decodes([]) == []
    assert _group_decodes([1]) == [(0, 1)]
    assert _group_decodes([10, 10, 11, 12]) == [(0, 4)]
    assert _group_decodes([1, 2, 100, 101]) == [(0, 2), (2, 4)]
    pages = sorted(random_tokens(64, vocabulary=1000))
    for start, stop in _group_decodes(pages):
        padding = sum(pages[stop - 1] - held for held in pages[start:stop])
        assert padding <= 32 * (stop - start)


def test_results_over_disjoint_keys_merge_into_the_result_over_all() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(5, 8), torch.randn(30, 8), torch.randn(30, 8)
    parts = [q @ k[rows].T for rows in (slice(0, 11), slice(11, 30))]
    a, b = (s.softmax(-1) @ v[rows] for s, rows in zip(parts, (slice(0, 11), slice(11, 30)), strict=True))
    merged, lse = merge_attention_states((a, parts[0].logsumexp(-1)), (b, parts[1].logsumexp(-1)))
    assert torch.allclose(lse, (q @ k.T).logsumexp(-1), atol=1e-6)
    assert torch.allclose(merged, (q @ k.T).softmax(-1) @ v, atol=1e-6)
