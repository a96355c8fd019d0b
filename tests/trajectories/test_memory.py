"""Several stores under one bound."""

from __future__ import annotations

import pytest

from radixway.trajectories import Memory, StoreFull, TrajectoryStore
from radixway.trajectories.given import Given


def answer(number: int, size: int = 200) -> Given:
    text = f"{number:04} " + "x" * size
    return Given.masked(list(range(number, number + 50)), text.encode(), None, None, None)


def test_the_store_that_has_most_to_give_makes_room_for_another():
    memory = Memory(20_000)
    full, new = TrajectoryStore(memory=memory), TrajectoryStore(memory=memory)
    for number in range(100):
        full.release(full.insert(answer(number)))
    before = full.tokens
    assert memory.nbytes <= 20_000 and before
    for number in range(4):
        new.release(new.insert(answer(number)))
    assert memory.nbytes <= 20_000 and new.tokens == 200 and full.tokens < before
    full.check()
    new.check()


def test_what_is_held_in_one_store_leaves_no_room_in_another():
    memory = Memory(4_000)
    first, second = TrajectoryStore(memory=memory), TrajectoryStore(memory=memory)
    holds = []
    with pytest.raises(StoreFull):
        for number in range(100):
            holds.append(first.insert(answer(number)))
    with pytest.raises(StoreFull):
        second.insert(answer(1, size=2_000))
    for hold in holds:
        first.release(hold)
    second.release(second.insert(answer(1)))


def test_what_is_kept_beside_the_stores_counts():
    memory = Memory(10_000)
    store = TrajectoryStore(memory=memory)
    for number in range(20):
        store.release(store.insert(answer(number)))
    memory.claim(9_000)
    assert memory.nbytes <= 10_000
    with pytest.raises(StoreFull):
        memory.claim(2_000)
    memory.give_back(9_000)
    assert memory.claimed == 0


def test_a_store_that_is_gone_counts_no_more():
    memory = Memory(10_000)
    store = TrajectoryStore(memory=memory)
    store.release(store.insert(answer(1)))
    del store
    assert memory.nbytes == 0
