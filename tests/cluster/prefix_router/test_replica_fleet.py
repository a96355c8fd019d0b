"""What is remembered, for how long, and what is in hand."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.cluster.prefix_router.call_prompt import BLOCK_BYTES
from radixway.cluster.prefix_router.replica_fleet import FORGOTTEN_AFTER_S
from support.tested_fleet import TestedFleet

CAP = 1_000_000


def long_prompt(number: int, size: int = 100_000) -> str:
    return f"{number:08} is how this one begins, and so it goes on. " * (size // 50)


def test_memory_is_bounded_although_nothing_is_evicted_by_default():
    """The published `do_eviction=False` lets the tree grow for ever."""
    tested = TestedFleet("ab", max_chars=CAP)
    for number in range(60):
        tested.send_and_end(long_prompt(number))
        assert len(tested.fleet.seen) * BLOCK_BYTES <= CAP
    tested.fleet.check()
    assert len(tested.fleet.seen) * BLOCK_BYTES > CAP / 2


def test_a_new_replica_takes_its_share_of_the_memory_at_once():
    tested = TestedFleet("a", max_chars=CAP)
    for number in range(12):
        tested.send_and_end(long_prompt(number))
    before = len(tested.fleet.seen)
    for name in "bcd":
        tested.fleet.add_replica(name)
        tested.fleet.check()
    assert before * BLOCK_BYTES > 0.9 * CAP
    assert len(tested.fleet.seen) * BLOCK_BYTES <= CAP / 4


def test_what_was_used_least_recently_goes_first():
    tested = TestedFleet("a", max_chars=CAP)
    tested.send_and_end(long_prompt(1))
    tested.send_and_end(long_prompt(2))
    for number in range(3, 12):
        tested.send_and_end(long_prompt(1))
        tested.send_and_end(long_prompt(number))
    assert tested.choose(long_prompt(1))[1] == "prefix"
    assert tested.choose(long_prompt(2))[1] == "cold"


def test_the_published_eviction_cuts_each_replica_down_when_its_time_has_come():
    tested = TestedFleet(
        "a",
        do_eviction=True,
        eviction_threshold_chars=250_000,
        eviction_target_chars=150_000,
        eviction_interval_secs=10,
    )
    kept = []
    for number in range(4):
        tested.send_and_end(long_prompt(number))
        kept.append(len(tested.fleet.seen) * BLOCK_BYTES // 50_000)
    assert kept == [2, 4, 6, 8], "the next look is ten seconds after the first"
    tested.now += 11
    tested.send_and_end(long_prompt(5))
    assert 145_000 < len(tested.fleet.seen) * BLOCK_BYTES <= 150_000


def test_a_replica_that_is_gone_is_forgotten_with_all_that_it_had_in_hand():
    tested = TestedFleet("ab")
    _, name = tested.send("this one is never answered", to="a")
    tested.fleet.remove_replica("a")
    tested.fleet.remove_replica("a")
    tested.fleet.end_request("a", name)
    tested.fleet.check()
    assert "a" not in tested.fleet
    assert tested.fleet.seen.replicas == ("b",)


def test_a_lease_that_nobody_ends_is_swept():
    """Sequences that nobody frees weigh on a worker for ever; Dynamo sweeps them after an hour, too."""
    tested = TestedFleet("ab")
    tested.send("its slot was reserved in Ray and never used", to="a")
    tested.now += FORGOTTEN_AFTER_S + 1
    tested.send("somebody else comes later", to="b")
    assert tested.fleet.find_worker("a").load.requests == 0
    tested.fleet.check()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "remove", "add", "hear"]), st.integers(0, 3), st.integers(0, 5)
        )
    )
)
def test_the_books_are_right_whatever_happens(steps):
    tested = TestedFleet("ab", max_chars=CAP)
    for what, place, number in steps:
        replica = "abcd"[place]
        if what == "begin":
            tested.fleet.start_request(replica, str(number), tested.request(f"prompt {number} " * 40), 10)
        elif what == "end":
            tested.fleet.end_request(replica, str(number))
        elif what == "remove":
            tested.fleet.remove_replica(replica)
        elif what == "add" and replica not in tested.fleet:
            tested.fleet.add_replica(replica)
        elif what == "hear" and replica in tested.fleet:
            tested.fleet.set_queue_length(tested.fleet.find_worker(replica), number)
        tested.fleet.check()
