"""The tree of what requests have in common, against one that is built the slow way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixway.api.prefixes.prefix_tree import PromptBlocks, build_prefix_tree


def chain(blocks, model="m", tenant="t", worker="w", at=0.0) -> PromptBlocks:
    return PromptBlocks(model, tuple(blocks), 16, tenant, worker, at)


def told(chains, most=1000, levels=1000):
    """Path from the top, requests, tokens."""
    shown, paths = build_prefix_tree(chains, most, levels), []
    for node in shown:
        above = () if node.parent is None else paths[node.parent][0]
        paths.append(((*above, (node.start, node.end, node.block)), node.requests, node.tokens))
    return paths


def test_requests_that_begin_alike_share_a_node():
    chains = [chain([1, 2, 3]), chain([1, 2, 4, 5]), chain([9])]
    model, shared, *rest = told(chains)
    assert model == (((0, 0, None),), 3, 0)
    assert shared == (((0, 0, None), (0, 2, 2)), 2, 32)
    assert sorted((path[-1], many) for path, many, _ in rest) == [
        ((0, 1, 9), 1),
        ((2, 3, 3), 1),
        ((2, 4, 5), 1),
    ]


def test_models_share_nothing_and_a_prompt_may_end_inside_of_another():
    chains = [chain([1, 2]), chain([1, 2, 3]), chain([1, 2], model="other")]
    shown = build_prefix_tree(chains, 100, 100)
    assert [(node.model, node.requests, node.tokens) for node in shown] == [
        ("m", 2, 0),
        ("m", 2, 32),
        ("m", 1, 16),
        ("other", 1, 0),
        ("other", 1, 32),
    ]


def test_who_uses_it_is_counted_and_when_last():
    chains = [
        chain([1, 2], tenant="a", worker="w1", at=5.0),
        chain([1, 3], tenant="a", worker="w2", at=9.0),
        chain([1, 4], tenant="b", worker="w2", at=7.0),
    ]
    shared = build_prefix_tree(chains, 2, 9)[1]
    assert shared.tenants == {"a": 2, "b": 1} and shared.workers == {"w1": 1, "w2": 2}
    assert shared.last_used == 9.0
    assert (shared.hidden, shared.hidden_tokens) == (3, 48)


CHAINS = st.lists(
    st.tuples(st.sampled_from("mn"), st.lists(st.integers(0, 2), min_size=1, max_size=7)), max_size=25
)


@given(CHAINS)
def test_every_request_passes_exactly_the_nodes_of_its_prompt(drawn):
    chains = [chain(blocks, model) for model, blocks in drawn]
    shown = build_prefix_tree(chains, 10_000, 100)
    for model, blocks in {(model, tuple(blocks)) for model, blocks in drawn}:
        for depth in range(1, len(blocks) + 1):
            through = sum(other == model and tuple(more[:depth]) == blocks[:depth] for other, more in drawn)
            (node,) = [
                node
                for node in shown
                if node.model == model
                and node.start < depth <= node.end
                and any(
                    sorted(chains, key=lambda c: (c.model, c.block_tokens, c.blocks))[at].blocks[:depth]
                    == blocks[:depth]
                    for at in range(node.lo, node.hi)
                )
            ]
            assert node.requests == through
    assert all(node.hidden == node.hidden_tokens == 0 for node in shown)
    assert all(node.parent is None or node.parent < at for at, node in enumerate(shown))


@given(CHAINS, st.integers(1, 6), st.integers(1, 4))
def test_a_bound_keeps_the_hottest(drawn, most, levels):
    chains = [chain(blocks, model) for model, blocks in drawn]
    whole, part = told(chains, 10_000, levels), told(chains, most, levels)
    assert part == whole[:most]
    assert [many for _, many, _ in whole] == sorted((many for _, many, _ in whole), reverse=True)
