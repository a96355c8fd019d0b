"""The queue in front of the workers: bounded, in order, and fair in the end."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import QueueConfig
from radixway.routing.request_queue import OfferResult, QueuedRequest, RequestQueue
from support.routing_requests import prompt


def queue(**fields) -> RequestQueue[QueuedRequest]:
    return RequestQueue(QueueConfig(**fields))


def waiting(arrived=0.0, line="m", **fields) -> QueuedRequest:
    return QueuedRequest(prompt(), line, arrived, **fields)


def serve(line, places=1, now=0.0, uncached=lambda waiting: waiting.uncached_tokens):
    """Whoever gets the next `places`, in order."""
    served = []

    def place(waiting):
        if len(served) < places:
            served.append(waiting)
            return OfferResult.TAKEN
        return OfferResult.BLOCKED

    line.fill_free_slots(place, uncached, now)
    line.check()
    return served


def fill(line, *several):
    for one in several:
        assert line.enqueue(one) is None
        line.check()


def test_who_comes_first_goes_first():
    line, first, second = queue(), waiting(1.0), waiting(2.0)
    fill(line, second, first)
    assert serve(line, places=2) == [first, second]
    assert len(line) == 0


def test_a_step_of_priority_is_worth_some_waiting_and_no_more():
    line = queue(aging_s=10)
    old, urgent, later = waiting(0.0), waiting(9.0, priority=1), waiting(11.0, priority=1)
    fill(line, old, urgent, later)
    assert serve(line, places=3) == [urgent, old, later]


def test_priorities_are_read_in_the_configured_sense_and_within_bounds():
    assert [queue(most_priority=5).clamp_priority(given) for given in (3, 99, -99)] == [3, 5, -5]
    assert queue(lower_priority_first=True).clamp_priority(-3) == 3


def test_the_shortest_goes_first_where_that_is_the_order():
    long, short = waiting(0.0, uncached_tokens=2000), waiting(1.0, uncached_tokens=100)
    by_arrival, by_size = queue(), queue(order="shortest_uncached_first")
    fill(by_arrival, long, short)
    assert serve(by_arrival) == [long]
    fill(by_size, long, short)
    assert serve(by_size) == [short]


def test_what_has_been_cached_since_a_request_came_counts_when_a_place_frees():
    line = queue(order="shortest_uncached_first")
    one, other = waiting(0.0, uncached_tokens=1000), waiting(0.0, uncached_tokens=2000)
    fill(line, one, other)
    assert serve(line, uncached=lambda waiting: 0 if waiting is other else 1000) == [other]


def test_a_full_queue_leaves_out_the_newcomer():
    line, late = queue(size=1), waiting(1.0)
    fill(line, waiting(0.0))
    assert line.enqueue(late) is late
    assert len(line) == 1


def test_a_full_queue_leaves_out_a_lesser_one_for_a_newcomer_that_goes_before_it():
    line, kept, lesser, urgent = queue(size=2), waiting(0.0), waiting(1.0), waiting(2.0, priority=1)
    fill(line, kept, lesser)
    assert line.enqueue(urgent) is lesser
    assert serve(line, places=2) == [urgent, kept]
    patient = queue(size=1, aging_s=1)
    fill(patient, waiting(0.0))
    assert patient.enqueue(late := waiting(100.0, priority=1)) is late, (
        "the other has waited for longer than that"
    )


def test_a_queue_of_no_size_lets_nobody_wait():
    line, one = queue(size=0), waiting()
    assert line.enqueue(one) is one


def test_who_leaves_makes_room_and_may_leave_twice():
    line, one, other = queue(size=1), waiting(), waiting()
    fill(line, one)
    line.dequeue(one)
    line.dequeue(one)
    fill(line, other)
    assert list(line) == [other]


def test_a_line_that_is_stuck_does_not_hold_up_another():
    line, stuck, free = queue(), waiting(0.0, line="a"), waiting(1.0, line="b")
    fill(line, stuck, free)
    served = []

    def place(one):
        if one is stuck:
            return OfferResult.BLOCKED
        served.append(one)
        return OfferResult.TAKEN

    line.fill_free_slots(place, lambda one: 0, 0.0)
    assert served == [free] and list(line) == [stuck]


def test_the_expected_drain_is_learnt_from_the_places_given():
    line = queue()
    assert line.estimate_drain_s() is None and line.estimate_retry_after_s() == 1
    fill(line, *(waiting() for _ in range(20)))
    for second in range(10):
        serve(line, now=3.0 * second)
    assert line.estimate_drain_s() == 3.0 * (10 + 1)
    assert line.estimate_retry_after_s() == 33


def test_an_idle_time_is_not_taken_for_a_slow_one():
    line = queue()
    for now in (0.0, 1.0):
        fill(line, waiting(), waiting())
        serve(line, places=2, now=now * 1000)
    assert line.estimate_drain_s() == 0.0


steps = st.lists(
    st.tuples(
        st.sampled_from(["come", "come", "serve", "leave"]),
        st.sampled_from(["a", "b"]),
        st.integers(-10, 10),
        st.integers(0, 8000),
    ),
    max_size=80,
)


@given(steps, st.integers(0, 12), st.sampled_from(["fcfs", "shortest_uncached_first"]))
def test_whatever_happens_it_is_bounded_in_order_and_loses_nobody(steps, size, order):
    line = queue(size=size, order=order)
    here: set[QueuedRequest] = set()
    for now, (step, name, priority, tokens) in enumerate(steps):
        if step == "come":
            one = waiting(float(now), name, priority=priority, uncached_tokens=tokens)
            here.add(one)
            here.discard(line.enqueue(one))
        elif step == "leave" and here:
            one = min(here, key=lambda one: one.number)
            here.discard(one)
            line.dequeue(one)
        elif step == "serve":
            best = min(line, default=None)
            served = serve(line, now=float(now))
            assert served == ([best] if best else [])
            here -= set(served)
        line.check()
        assert set(line) == here and len(line) <= size


@given(
    st.lists(st.tuples(st.integers(-10, 10), st.integers(0, 8000)), min_size=200, max_size=200),
    st.integers(0, 8000),
    st.sampled_from(["fcfs", "shortest_uncached_first"]),
)
def test_nobody_starves_however_many_come_and_however_small_they_are(others, tokens, order):
    aging_s = 2.0
    line = queue(size=1000, aging_s=aging_s, order=order)
    poor = waiting(0.0, priority=-10, uncached_tokens=tokens)
    fill(line, poor)
    latest = aging_s * (20 + tokens / 1000)  # who comes after that stands behind it
    for now, (priority, size) in enumerate(others, start=1):
        fill(line, waiting(float(now), priority=priority, uncached_tokens=size))
    before = 0
    while serve(line) != [poor]:
        before += 1
    assert before <= latest
