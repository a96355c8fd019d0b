"""The store in this process: exact, bounded, evicted in a configured order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.semantics.cache import EntryFilter, MemoryStore
from support.cache_entries import entry, unit


async def filled(*entries, size=100, eviction="lru"):
    store = MemoryStore(size, eviction)
    for each in entries:
        await store.put_entry(each, now=0)
    store.check()
    return store


async def test_the_nearest_come_first_and_only_of_the_scope():
    near, far, elsewhere = (
        entry("near", vector=(1, 0.1, 0)),
        entry("far", vector=(0, 1, 0)),
        entry("x", scope="other"),
    )
    store = await filled(far, near, elsewhere)
    found = await store.find_nearest("s", unit(1, 0, 0), 5, now=1)
    assert [match.entry for match in found] == [near, far]
    assert found[0].similarity == pytest.approx(1 / np.sqrt(1.01))
    assert await store.find_nearest("nowhere", unit(1, 0, 0), 5, now=1) == []
    assert [m.entry for m in await store.find_nearest("s", unit(1, 0, 0), 1, now=1)] == [near]


async def test_a_literal_repeat_is_found_without_a_vector():
    kept = entry("q", vector=None)
    store = await filled(kept)
    assert await store.find_exact("s", "q", now=1) is kept
    assert await store.find_exact("other", "q", now=1) is None


async def test_what_has_expired_is_never_given():
    store = await filled(entry("q", expires_at=10), entry("r", expires_at=30))
    assert await store.find_exact("s", "q", now=9.9) is not None
    assert await store.find_exact("s", "q", now=10) is None
    assert len(await store.find_nearest("s", unit(1, 0, 0), 5, now=20)) == 1
    assert await store.find_nearest("s", unit(1, 0, 0), 5, now=30) == []
    store.check()
    assert await store.count_entries() == 0


async def test_what_has_expired_already_is_not_kept():
    store = await filled(entry(expires_at=0))
    assert len(store) == 0


async def test_a_newer_answer_replaces_the_older_one():
    older, newer = entry("q"), entry("q")
    store = await filled(older, newer)
    assert await store.find_exact("s", "q", now=1) is newer and len(store) == 1


@pytest.mark.parametrize(("eviction", "gone"), [("fifo", "a"), ("lru", "b"), ("lfu", "c")])
async def test_a_full_store_lets_go_in_its_order(eviction, gone):
    a, b, c = (entry(name) for name in "abc")
    store = await filled(a, b, c, size=3, eviction=eviction)
    for used in (b, b, c, a, a, a):
        await store.mark_used(used)
    await store.put_entry(entry("d"), now=1)
    assert {e.question for e in store} == set("abcd") - {gone}
    assert store.evicted == 1
    store.check()


@pytest.mark.parametrize(
    ("which", "left"),
    [
        (EntryFilter(), set()),
        (EntryFilter(tenant="t"), {"c"}),
        (EntryFilter(user="u"), {"b", "c"}),
        (EntryFilter(model="m", tenant="t"), {"b", "c"}),
        (EntryFilter(exact="b"), {"a", "c"}),
        (EntryFilter(id="nobody"), {"a", "b", "c"}),
    ],
)
async def test_a_purge_takes_what_agrees_with_every_field(which, left):
    store = await filled(entry("a", user="u"), entry("b", model="n"), entry("c", tenant="v"))
    assert await store.remove_entries(which) == 3 - len(left)
    assert {e.question for e in store} == left
    store.check()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.integers(0, 2), st.integers(1, 30)),
        st.tuples(st.just("use"), st.integers(0, 9), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 20)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps, st.sampled_from(["fifo", "lru", "lfu"]))
async def test_whatever_happens_the_accounts_agree(done, eviction):
    store, now = MemoryStore(5, eviction), 0.0
    for step in done:
        match step:
            case ("put", name, scope, ttl):
                vector = None if name == 0 else (name, scope + 1, 1)
                await store.put_entry(entry(str(name), str(scope), vector, expires_at=now + ttl), now)
            case ("use", name, scope):
                found = await store.find_exact(str(scope), str(name), now)
                if found is not None:
                    assert found.is_fresh(now)
                    await store.mark_used(found)
            case ("remove", name):
                await store.remove_entries(EntryFilter(exact=str(name)))
            case ("wait", seconds):
                now += seconds
        store.check()
        for match in await store.find_nearest("1", unit(1, 1, 1), 3, now):
            assert match.entry.scope == "1" and match.entry.is_fresh(now)
