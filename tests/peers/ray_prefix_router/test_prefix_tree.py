"""Ray's cases of its prefix tree, of ours under the same names."""

import asyncio

import pytest
import ray

from radixway.cluster.ray_router import Node, PrefixTree, PrefixTreeActor
from support.ported_cases import ported
from support.prefix_tree_cases import EVICTIONS, THREE, THREE_NODES, describe_node

SOURCE = "python/ray/llm/tests/serve/cpu/deployments/test_prefix_tree.py"


def case(name: str) -> pytest.MarkDecorator:
    return ported(SOURCE, name)


@pytest.fixture
def tree() -> PrefixTree:
    return PrefixTree()


def grow(tree: PrefixTree, *uses: tuple[str, str, float]) -> PrefixTree:
    """Make the tenants of `uses` known at 0 and insert `(text, tenant, time)` one after another."""
    tree.add_tenants(sorted({tenant for _, tenant, _ in uses}), 0)
    for text, tenant, time_s in uses:
        tree.insert(text, tenant, time_s)
    tree.check()
    return tree


def chain(tree: PrefixTree, tenant: str) -> list[str]:
    """The texts of the nodes of `tenant`, from the root to the one used longest ago."""
    return [node.text for node in tree._get_lru_chain(tenant)]


def path(tree: PrefixTree, edges: str) -> Node:
    """The node that is reached by the first characters `edges`."""
    node = tree.root
    for edge in edges:
        node = node.edge_label_to_child[edge]
    return node


@case("TestPrefixTreeInitialization::test_initial_state")
def test_a_new_tree_has_an_empty_root_and_no_tenants(tree):
    assert tree.tenant_to_char_count == {} == tree.tenant_to_lru_tail
    assert (tree.root.text, tree.root.parent) == ("", None)
    assert tree.root.tenant_to_last_access_time == {} == tree.root.edge_label_to_child


@case("TestPrefixTreeInitialization::test_add_tenant")
def test_a_new_tenant_has_the_root_alone(tree):
    tree.add_tenants(["a"], 0)
    assert tree.tenant_to_char_count == {"a": 0}
    assert tree.tenant_to_lru_tail["a"] is tree.root
    assert tree.root.tenant_to_last_access_time == {"a": 0}
    assert chain(tree, "a") == [""]


@case("TestPrefixTreeInitialization::test_add_existing_tenant_noop")
def test_a_known_tenant_is_added_without_effect(tree):
    tree.add_tenants(["a"], 0)
    tree.add_tenants(["a"], 0)
    assert tree.tenant_to_char_count == {"a": 0}
    assert tree.tenant_to_lru_tail["a"] is tree.root
    assert tree.root.tenant_to_last_access_time == {"a": 0}
    assert chain(tree, "a") == [""]


@case("TestPrefixTreeInitialization::test_add_multiple_tenants")
def test_several_tenants_are_added_at_once(tree):
    tenants = ["a", "b", "c"]
    tree.add_tenants(tenants, 0)
    assert tree.tenant_to_char_count == dict.fromkeys(tenants, 0) == tree.root.tenant_to_last_access_time
    for tenant in tenants:
        assert tree.tenant_to_lru_tail[tenant] is tree.root
        assert tree.root.tenant_to_newer_node.get(tenant) is None
        assert tree.root.tenant_to_older_node.get(tenant) is None
        assert chain(tree, tenant) == [""]


@case("TestPrefixTreeInitialization::test_add_multiple_tenants_with_existing")
def test_of_several_tenants_those_that_are_known_stay(tree):
    tree.add_tenants(["a"], 0)
    tree.add_tenants(["a", "b", "c"], 0)
    everybody = dict.fromkeys("abc", 0)
    assert tree.root.tenant_to_last_access_time == everybody == tree.tenant_to_char_count
    assert set(tree.tenant_to_lru_tail) == set("abc")


@case("TestPrefixTreeInsert::test_insert_non_existent_tenant")
def test_an_unknown_tenants_text_is_not_kept(tree):
    tree.insert("hello", "nobody", 1)
    assert "nobody" not in tree.tenant_to_char_count
    assert chain(tree, "nobody") == []
    assert tree.root.edge_label_to_child == {}


@case("TestPrefixTreeInsert::test_insert_single_string")
def test_a_text_is_one_node(tree):
    grow(tree, ("hello", "a", 1))
    assert tree.tenant_to_char_count == {"a": 5}
    assert chain(tree, "a") == ["", "hello"]
    assert tree.root.tenant_to_last_access_time == {"a": 1}
    assert set(tree.root.edge_label_to_child) == {"h"}
    hello = path(tree, "h")
    assert (hello.text, hello.parent) == ("hello", tree.root)
    assert (hello.tenant_to_last_access_time, hello.edge_label_to_child) == ({"a": 1}, {})


@case("TestPrefixTreeInsert::test_insert_duplicate_string")
def test_a_text_that_comes_again_renews_its_time(tree):
    grow(tree, ("hello", "a", 1))
    for time_s in (1, 2):
        tree.insert("hello", "a", time_s)
        assert tree.tenant_to_char_count == {"a": 5}
        assert chain(tree, "a") == ["", "hello"]
        assert tree.root.tenant_to_last_access_time == {"a": time_s}
        assert path(tree, "h").tenant_to_last_access_time == {"a": time_s}


@case("TestPrefixTreeInsert::test_insert_multiple_tenants")
def test_two_tenants_share_a_node(tree):
    grow(tree, ("hello", "a", 1), ("hello", "b", 2))
    assert tree.tenant_to_char_count == {"a": 5, "b": 5}
    assert chain(tree, "a") == ["", "hello"] == chain(tree, "b")
    assert tree.root.tenant_to_last_access_time == {"a": 1, "b": 2}
    assert path(tree, "h").tenant_to_last_access_time == {"a": 1, "b": 2}


@case("TestPrefixTreeInsert::test_insert_node_split")
def test_texts_that_part_split_a_node(tree):
    grow(tree, ("helloworld", "a", 1), ("hellothere", "b", 2))
    assert tree.tenant_to_char_count == {"a": 10, "b": 10}
    assert chain(tree, "a") == ["", "hello", "world"]
    assert chain(tree, "b") == ["", "there", "hello"]
    hello = path(tree, "h")
    assert (hello.text, hello.tenant_to_last_access_time) == ("hello", {"a": 1, "b": 2})
    assert set(hello.edge_label_to_child) == {"w", "t"}
    world, there = path(tree, "hw"), path(tree, "ht")
    assert (world.text, world.tenant_to_last_access_time) == ("world", {"a": 1})
    assert (there.text, there.tenant_to_last_access_time) == ("there", {"b": 2})


@case("TestPrefixTreeInsert::test_insert_longer_string_with_shared_prefix")
def test_a_longer_text_goes_on_from_a_shorter_one(tree):
    grow(tree, ("hello", "a", 1), ("helloworld", "b", 2))
    assert tree.tenant_to_char_count == {"a": 5, "b": 10}
    assert chain(tree, "a") == ["", "hello"]
    assert chain(tree, "b") == ["", "world", "hello"]
    hello = path(tree, "h")
    assert (hello.text, hello.tenant_to_last_access_time) == ("hello", {"a": 1, "b": 2})
    assert set(hello.edge_label_to_child) == {"w"}
    world = path(tree, "hw")
    assert (world.text, world.tenant_to_last_access_time) == ("world", {"b": 2})
    assert all(node.text for node in tree._iter_nodes()), "only the root has no text"


@case("TestPrefixTreeInsert::test_insert_shorter_string_with_shared_prefix")
def test_a_shorter_text_splits_a_longer_one(tree):
    grow(tree, ("helloworld", "a", 1), ("hello", "b", 2))
    assert tree.tenant_to_char_count == {"a": 10, "b": 5}
    assert chain(tree, "a") == ["", "hello", "world"]
    assert chain(tree, "b") == ["", "hello"]
    hello = path(tree, "h")
    assert (hello.text, hello.tenant_to_last_access_time) == ("hello", {"a": 1, "b": 2})
    assert set(hello.edge_label_to_child) == {"w"}
    world = path(tree, "hw")
    assert (world.text, world.tenant_to_last_access_time) == ("world", {"a": 1})


@case("TestPrefixTreeMatch::test_prefix_match_empty_tree")
def test_an_empty_tree_matches_nothing_for_nobody(tree):
    assert tree.prefix_match("hello") == ("", None)


@case("TestPrefixTreeMatch::test_prefix_match_no_match")
def test_an_unseen_text_matches_nothing_for_everybody(tree):
    grow(tree, ("hello", "a", 1), ("world", "b", 2))
    text, tenants = tree.prefix_match("foobar")
    assert text == ""
    assert sorted(tenants) == ["a", "b"]


@case("TestPrefixTreeMatch::test_prefix_match_query_longer_than_stored_strings")
def test_a_longer_query_matches_as_far_as_was_seen(tree):
    grow(tree, ("helloworld", "a", 1), ("hellothere", "b", 2))
    assert tree.prefix_match("hellothereextra") == ("hellothere", ["b"])


@case("TestPrefixTreeMatch::test_prefix_match_exact_match")
def test_a_seen_text_matches_whole(tree):
    assert grow(tree, ("hello", "a", 1)).prefix_match("hello") == ("hello", ["a"])


@case("TestPrefixTreeMatch::test_prefix_match_partial_match")
def test_a_match_may_end_inside_a_node(tree):
    grow(tree, ("apple", "a", 1), ("apricot", "b", 2))
    assert tree.prefix_match("application") == ("appl", ["a"])


@case("TestPrefixTreeMatch::test_prefix_match_with_tenant_filter")
def test_only_the_tenants_that_are_asked_for_match(tree):
    grow(tree, ("apple", "a", 1), ("apricot", "b", 2))
    assert tree.prefix_match("application", ["b"]) == ("ap", ["b"])


@case("TestPrefixTreeMatch::test_prefix_match_with_shared_prefix_tenant_filter")
def test_of_a_shared_prefix_each_tenant_matches_its_own_part(tree):
    grow(tree, ("apple", "a", 1), ("applepie", "b", 2))
    assert tree.prefix_match("applepie", ["a"]) == ("apple", ["a"])
    assert tree.prefix_match("applepie", ["a", "b"]) == ("applepie", ["b"])
    text, tenants = tree.prefix_match("apple", ["a", "b"])
    assert (text, set(tenants)) == ("apple", {"a", "b"})


@case("TestPrefixTreeMatch::test_prefix_match_with_non_existent_tenant_filter")
def test_an_unknown_tenant_matches_nothing(tree):
    assert grow(tree, ("apple", "a", 1)).prefix_match("application", ["nobody"]) == ("", None)


@case("TestPrefixTreeRemove::test_remove_single_leaf_node_pruned")
def test_a_node_of_nobody_is_pruned(tree):
    hello = path(grow(tree, ("hello", "a", 1)), "h")
    assert tree._remove_tenant_single_node("a", hello) == 5
    assert hello.tenant_to_last_access_time == {}
    assert tree.tenant_to_char_count == {"a": 0}
    assert tree.root.edge_label_to_child == {}


@case("TestPrefixTreeRemove::test_remove_single_leaf_node_not_pruned")
def test_a_node_that_another_tenant_has_stays(tree):
    hello = path(grow(tree, ("hello", "a", 1), ("hello", "b", 2)), "h")
    assert tree._remove_tenant_single_node("a", hello) == 5
    assert hello.tenant_to_last_access_time == {"b": 2}
    assert tree.tenant_to_char_count == {"a": 0, "b": 5}
    assert tree.root.edge_label_to_child == {"h": hello}


@case("TestPrefixTreeRemove::test_remove_single_node_with_non_existent_tenant")
def test_an_unknown_tenant_loses_no_node(tree):
    hello = path(grow(tree, ("hello", "a", 1)), "h")
    assert tree._remove_tenant_single_node("nobody", hello) == 0


@case("TestPrefixTreeRemove::test_remove_single_node_with_non_matching_tenant")
def test_a_tenant_loses_no_node_of_another(tree):
    hello = path(grow(tree, ("hello", "a", 1), ("world", "b", 2)), "h")
    assert tree._remove_tenant_single_node("b", hello) == 0
    assert hello.tenant_to_last_access_time == {"a": 1}


@case("TestPrefixTreeRemove::test_remove_tenant")
def test_a_removed_tenant_leaves_what_others_have(tree):
    grow(tree, ("hello", "a", 1), ("foobar", "a", 2), ("helloworld", "b", 3))
    assert tree.remove_tenants(["a"]) == {"a": 11}
    assert path(tree, "h").tenant_to_last_access_time == {"b": 3}
    assert tree.tenant_to_char_count == {"b": 10}
    assert set(tree.tenant_to_lru_tail) == {"b"}
    assert chain(tree, "b") == ["", "world", "hello"]
    tree.check()


@case("TestPrefixTreeRemove::test_remove_non_existent_tenant")
def test_an_unknown_tenant_is_removed_without_effect(tree):
    grow(tree, ("hello", "a", 1))
    assert tree.remove_tenants(["nobody"]) == {"nobody": 0}
    assert tree.tenant_to_char_count == {"a": 5}


@case("TestPrefixTreeRemove::test_remove_tenant_prunes_nodes")
def test_a_removed_tenants_own_nodes_are_pruned(tree):
    grow(tree, ("helloworld", "a", 1), ("hellothere", "b", 2))
    tree.remove_tenants(["a"])
    assert set(path(tree, "h").edge_label_to_child) == {"t"}
    there = path(tree, "ht")
    assert (there.text, there.tenant_to_last_access_time) == ("there", {"b": 2})


@case("TestPrefixTreeRemove::test_remove_tenants")
def test_several_tenants_are_removed_at_once(tree):
    grow(tree, ("hello", "a", 1), ("foobar", "a", 2), ("helloworld", "b", 3), ("test", "c", 4))
    assert tree.remove_tenants(["a", "c"]) == {"a": 11, "c": 4}
    assert tree.tenant_to_char_count == {"b": 10}
    assert set(tree.root.edge_label_to_child) == {"h"}
    assert set(tree.tenant_to_lru_tail) == {"b"}
    assert chain(tree, "b") == ["", "world", "hello"]
    tree.check()


@case("TestPrefixTreeRemove::test_remove_tenants_with_nonexistent")
def test_unknown_tenants_among_known_ones_are_removed_without_effect(tree):
    grow(tree, ("hello", "a", 1), ("world", "b", 2))
    assert tree.remove_tenants(["a", "nobody", "nor_them"]) == {"a": 5, "nobody": 0, "nor_them": 0}
    assert tree.tenant_to_char_count == {"b": 5}
    assert set(tree.root.edge_label_to_child) == {"w"}


@case("TestPrefixTreeEviction::test_eviction_non_existent_tenant")
def test_of_an_unknown_tenant_nothing_is_evicted(tree):
    assert tree.evict_tenant_by_lru("nobody", 5) == 0


@pytest.mark.parametrize(
    ("texts", "least", "evicted", "left"),
    [
        pytest.param(
            ("a", "bb", "ccc"),
            *(1, 1, ["", "ccc", "bb"]),
            marks=case("TestPrefixTreeEviction::test_eviction_exact_min_remove_size_single_node"),
            id="as-many-as-asked",
        ),
        pytest.param(
            ("aaa", "bb", "c"),
            *(1, 3, ["", "c", "bb"]),
            marks=case("TestPrefixTreeEviction::test_eviction_exceed_min_remove_size_single_node"),
            id="a-whole-node",
        ),
        pytest.param(
            ("a", "bb", "ccc"),
            *(2, 3, ["", "ccc"]),
            marks=case("TestPrefixTreeEviction::test_eviction_multiple_nodes"),
            id="two-nodes",
        ),
    ],
)
def test_what_was_used_longest_ago_is_evicted(tree, texts, least, evicted, left):
    grow(tree, *((text, "a", time_s) for time_s, text in enumerate(texts, 1)))
    assert chain(tree, "a") == ["", *reversed(texts)]
    assert tree.evict_tenant_by_lru("a", least) == evicted
    assert tree.tenant_to_char_count == {"a": 6 - evicted}
    assert chain(tree, "a") == left


@case("TestPrefixTreeEviction::test_eviction_same_timestamps")
def test_what_was_used_at_one_time_is_evicted_together(tree):
    grow(tree, ("helloworld", "a", 1), ("hellothere", "b", 2))
    assert tree.evict_tenant_by_lru("a", 1) == 10
    assert tree.tenant_to_char_count == {"a": 0, "b": 10}
    assert chain(tree, "a") == [""]
    assert chain(tree, "b") == ["", "there", "hello"]


@case("TestPrefixTreeEviction::test_eviction_insufficient_chars_evicts_all")
def test_more_than_there_is_evicts_all(tree):
    grow(tree, ("xyz", "a", 1))
    assert tree.evict_tenant_by_lru("a", 10) == 3
    assert tree.tenant_to_char_count == {"a": 0}
    assert chain(tree, "a") == [""]


@case("TestPrefixTreeGetSmallestTenants::test_get_smallest_tenants")
def test_the_tenant_with_the_fewest_characters_is_the_smallest(tree):
    grow(tree, ("aaaa", "a", 1), ("bb", "b", 2), ("c", "c", 3))
    assert tree.get_smallest_tenants() == ["c"]


@case("TestPrefixTreeGetSmallestTenants::test_get_smallest_tenants_empty_tree")
def test_without_tenants_none_is_the_smallest(tree):
    assert tree.get_smallest_tenants() is None


@case("TestPrefixTreeGetSmallestTenants::test_get_smallest_tenants_after_update")
def test_after_the_smallest_is_removed_another_is(tree):
    grow(tree, ("aaaa", "a", 1), ("bb", "b", 2), ("c", "c", 3))
    tree.remove_tenants(["c"])
    assert tree.get_smallest_tenants() == ["b"]


@case("TestPrefixTreeGetSmallestTenants::test_get_smallest_tenants_with_ties")
def test_several_tenants_may_be_the_smallest(tree):
    grow(tree, ("aa", "a", 1), ("bb", "b", 2), ("cccc", "c", 3))
    assert set(tree.get_smallest_tenants()) == {"a", "b"}


@case("TestPrefixTreeComprehensive::test_tree_structure_multiple_insertions")
def test_three_texts_make_six_nodes(tree):
    grow(tree, *THREE)
    for edges, (text, parent, times, children) in THREE_NODES.items():
        assert describe_node(path(tree, edges)) == (text, parent, times, set(children))


@case("TestPrefixTreeComprehensive::test_multiple_evictions_maintains_lru_order")
def test_evictions_keep_the_order_of_use(tree):
    grow(tree, *THREE)
    assert tree.tenant_to_char_count == {"a": 10, "b": 14}
    assert chain(tree, "a") == ["", "hello", "world"]
    assert chain(tree, "b") == ["", "omas", "th", "hello", "ere"]
    for tenant, evicted, counts, chains in EVICTIONS:
        assert tree.evict_tenant_by_lru(tenant, 1) == evicted
        assert tree.tenant_to_char_count == counts
        assert {each: chain(tree, each) for each in chains} == chains
        tree.check()


@pytest.fixture
def actor(running_ray):
    """A tree in an actor, whose calls are made in their order."""
    handle = PrefixTreeActor.remote()
    yield handle
    ray.get(handle.stop_eviction_loop.remote())
    ray.kill(handle)


def grow_actor(actor, *uses: tuple[str, str, float]) -> None:
    actor.add_tenants.remote(sorted({tenant for _, tenant, _ in uses}), 0)
    for text, tenant, time_s in uses:
        actor.insert.remote(text, tenant, time_s)


def actor_chain(actor, tenant: str) -> list[str]:
    return [node.text for node in ray.get(actor._get_lru_chain.remote(tenant))]


def actor_counts(actor) -> dict[str, int]:
    return ray.get(actor.getattr.remote("tenant_to_char_count"))


@pytest.mark.slow
@case("TestPrefixTreeActorComprehensive::test_tree_structure_multiple_insertions_actor")
def test_three_texts_make_six_nodes_in_an_actor(actor):
    grow_actor(actor, *THREE)
    assert actor_chain(actor, "a") == ["", "hello", "world"]
    copy = PrefixTree()
    copy.root = ray.get(actor.getattr.remote("root"))
    for edges, (text, parent, times, children) in THREE_NODES.items():
        assert describe_node(path(copy, edges)) == (text, parent, times, set(children))


@pytest.mark.slow
@case("TestPrefixTreeActorComprehensive::test_multiple_evictions_maintains_lru_order_actor")
def test_evictions_keep_the_order_of_use_in_an_actor(actor):
    grow_actor(actor, *THREE)
    assert actor_counts(actor) == {"a": 10, "b": 14}
    assert actor_chain(actor, "a") == ["", "hello", "world"]
    assert actor_chain(actor, "b") == ["", "omas", "th", "hello", "ere"]
    for tenant, evicted, counts, chains in EVICTIONS:
        assert ray.get(actor.evict_tenant_by_lru.remote(tenant, 1)) == evicted
        assert actor_counts(actor) == counts
        assert {each: actor_chain(actor, each) for each in chains} == chains


INTERVAL_S = 0.2


async def until_counts(actor, expected: dict[str, int]) -> None:
    """Wait until the tenants have so many characters, and see that an interval later they still do."""
    async with asyncio.timeout(20):
        while actor_counts(actor) != expected:  # noqa: ASYNC110
            await asyncio.sleep(INTERVAL_S / 4)
    await asyncio.sleep(2 * INTERVAL_S)
    assert actor_counts(actor) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uses", "before", "after"),
    [
        pytest.param(
            (("hello", "a", 1), ("excess", "a", 2)),
            {"a": 11},
            {"a": 6},
            marks=case("TestPrefixTreeActorEvictionLoop::test_eviction_loop_triggers_automatically"),
            id="one-tenant",
        ),
        pytest.param(
            (("hello", "a", 1), ("excess", "a", 2), ("bigstring", "b", 3), ("more", "b", 4)),
            {"a": 11, "b": 13},
            {"a": 6, "b": 4},
            marks=case("TestPrefixTreeActorEvictionLoop::test_eviction_loop_multiple_tenants"),
            id="two-tenants",
        ),
        pytest.param(
            (("hello", "a", 1), ("excess", "a", 2), ("small", "b", 3)),
            {"a": 11, "b": 5},
            {"a": 6, "b": 5},
            marks=case("TestPrefixTreeActorEvictionLoop::test_eviction_loop_respects_threshold"),
            id="one-of-two",
        ),
    ],
)
async def test_tenants_above_the_threshold_are_cut_to_the_target(actor, uses, before, after):
    grow_actor(actor, *uses)
    assert actor_counts(actor) == before
    assert ray.get(actor.start_eviction_loop.remote(10, 8, INTERVAL_S))
    await until_counts(actor, after)


@pytest.mark.slow
@case("TestPrefixTreeActorEvictionLoop::test_eviction_loop_can_be_started_multiple_times")
async def test_a_second_eviction_loop_does_not_begin(actor):
    assert ray.get(actor.start_eviction_loop.remote(10, 8, INTERVAL_S))
    assert not ray.get(actor.start_eviction_loop.remote(10, 0, INTERVAL_S))
    grow_actor(actor, ("hello", "a", 1), ("excess", "a", 2))
    await until_counts(actor, {"a": 6})
