"""What requests of a step have in common is found, and attending to it once changes nothing."""

from array import array

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.test_attention import CPU, PAGE, shape, written_out
from radixway.engine.attention import CpuAttention
from radixway.engine.attention_metadata import AttentionMetadata, QuerySpan, SharedRun, find_shared_runs
from radixway.engine.kv_store import KVStore


def tables(*pages: list[int]) -> list[np.ndarray]:
    return [np.array(table, dtype=np.int32) for table in pages]


def test_runs_are_found_level_by_level() -> None:
    held = tables([1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 7], [1, 2, 8], [9], [])
    assert sorted(find_shared_runs(held, 1)) == [SharedRun([0, 1], 2, 4), SharedRun([0, 1, 2], 0, 2)]


def test_a_run_that_is_not_worth_it_is_left_to_the_runs_below() -> None:
    held = tables([1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 7], [1, 8])
    assert find_shared_runs(held, 3) == [SharedRun([0, 1], 0, 4)]
    assert find_shared_runs(held, 5) == []


def test_nothing_and_nobody_share_nothing() -> None:
    assert (
        find_shared_runs([], 1)
        == find_shared_runs(tables([]), 1)
        == find_shared_runs(tables([1, 2], [3]), 1)
        == []
    )


@st.composite
def page_tables(draw: st.DrawFn) -> list[np.ndarray]:
    """Paths down a random tree: every page has one parent."""
    children: dict[int, list[int]] = {0: []}
    paths = []
    for _ in range(draw(st.integers(1, 8))):
        path, at = [], 0
        for _ in range(draw(st.integers(0, 8))):
            if not children[at] or draw(st.integers(0, 3)) == 0:
                children[at].append(len(children))
                children[len(children)] = []
            at = draw(st.sampled_from(children[at]))
            path.append(at)
        paths.append(path)
    return tables(*paths)


@given(page_tables(), st.integers(1, 6))
def test_runs_are_common_gapless_and_worth_it(held: list[np.ndarray], worth: int) -> None:
    reached = [0] * len(held)
    for members, start, stop in find_shared_runs(held, worth):
        assert len(members) > 1 and (len(members) - 1) * (stop - start) >= worth
        for i in members:
            assert list(held[i][:stop]) == list(held[members[0]][:stop])
            assert reached[i] == start
            reached[i] = stop
    if worth == 1:  # then everything that is shared is found
        for i, one in enumerate(held):
            for other in held[:i]:
                alike = 0
                while alike < min(len(one), len(other)) and one[alike] == other[alike]:
                    alike += 1
                assert reached[i] >= alike


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (3, 3), (6, 1)])
def test_attending_to_shared_pages_once_gives_what_the_formula_says(heads: int, kv_heads: int) -> None:
    """All share 75 pages, five of them 40 more, two of those 30 more; tokens and chunks mixed."""
    torch.manual_seed(1)
    d, levels = 16, [75, 40, 30]
    store = KVStore(shape(heads, kv_heads, d), 600, PAGE, torch.float32, CPU)
    ends = np.cumsum(levels) * PAGE
    base = [torch.randn(ends[-1], kv_heads, d) for _ in range(2)]
    members = [(0, 5, 1), (0, 0, 1), (0, 9, 12), (1, 0, 1), (1, 3, 1), (1, 2, 7), (2, 0, 1), (2, 6, 2)]
    spans, whole, pool = [], [], iter(range(int(ends[-1]) // PAGE + 1, 600))
    for level, more, new in members:
        before = int(ends[level]) + more
        k, v = (torch.cat([part[: ends[level]], torch.randn(more + new, kv_heads, d)]) for part in base)
        own = [next(pool) for _ in range(-(-(more + new) // PAGE))]
        pages = [*range(1, ends[level] // PAGE + 1), *own]
        spans.append(QuerySpan(before, new, array("i", pages)))
        whole.append((torch.randn(before + new, heads, d), k, v))
        slots = torch.tensor([pages[at // PAGE] * PAGE + at % PAGE for at in range(before)])
        store.write_kv(0, slots, k[:before], v[:before])
    plan = AttentionMetadata.build_metadata(spans, PAGE, torch.float32, CPU)
    numbers = torch.arange(600)
    lengths = sorted(len(numbers[shared.pages]) for shared in plan.shared_groups)
    assert lengths == [40, 75], "30 pages less once do not pay"
    assert max(len(shared.rows) for shared in plan.shared_groups) == sum(new for _, _, new in members)
    q, k, v = (torch.cat([whole[i][part][spans[i].before :] for i in plan.order]) for part in range(3))
    ours = CpuAttention(store)(plan, 0, q, k, v)
    theirs = torch.cat([written_out(whole[i][0][spans[i].before :], *whole[i][1:]) for i in plan.order])
    assert (ours - theirs).abs().max() < 1e-5
