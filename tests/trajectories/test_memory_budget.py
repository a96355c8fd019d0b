"""Several stores under one bound."""

from __future__ import annotations

import pytest

from radixway.trajectories import MemoryBudget, StoreFullError, TrajectoryStore
from radixway.trajectories.token_segment import TokenSegment


def answer(number: int, size: int = 200) -> TokenSegment:
    text = f"{number:04} " + "x" * size
    return TokenSegment.from_mask(list(range(number, number + 50)), text.encode(), None, None, None)


def test_the_store_that_has_most_to_give_makes_room_for_another():
    memory = MemoryBudget(20_000)
    full, new = TrajectoryStore(memory=memory), TrajectoryStore(memory=memory)
    for number in range(100):
        full.release_hold(full.insert(answer(number)))
    before = full.tokens
    assert memory.nbytes <= 20_000 and before
    for number in range(4):
        new.release_hold(new.insert(answer(number)))
    assert memory.nbytes <= 20_000 and new.tokens == 200 and full.tokens < before
    full.check()
    new.check()


def test_what_is_held_in_one_store_leaves_no_room_in_another():
    memory = MemoryBudget(4_000)
    first, second = TrajectoryStore(memory=memory), TrajectoryStore(memory=memory)
    holds = []
    with pytest.raises(StoreFullError):
        for number in range(100):
            holds.append(first.insert(answer(number)))
    with pytest.raises(StoreFullError):
        second.insert(answer(1, size=2_000))
    for hold in holds:
        first.release_hold(hold)
    second.release_hold(second.insert(answer(1)))


def test_what_is_kept_beside_the_stores_counts():
    memory = MemoryBudget(10_000)
    store = TrajectoryStore(memory=memory)
    for number in range(20):
        store.release_hold(store.insert(answer(number)))
    memory.claim_bytes(9_000)
    assert memory.nbytes <= 10_000
    with pytest.raises(StoreFullError):
        memory.claim_bytes(2_000)
    memory.release_bytes(9_000)
    assert memory.claimed == 0


def test_a_store_that_is_gone_counts_no_more():
    memory = MemoryBudget(10_000)
    store = TrajectoryStore(memory=memory)
    store.release_hold(store.insert(answer(1)))
    del store
    assert memory.nbytes == 0
