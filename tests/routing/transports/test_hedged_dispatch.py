"""When a copy of a request is due, and how many there may be."""

from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import HedgeConfig
from radixway.routing.transports.hedged_dispatch import HedgeBudget


def test_a_fixed_delay_needs_no_learning():
    hedging = HedgeBudget(HedgeConfig(after_s=0.5))
    assert hedging.delay_s("m", True) == 0.5


def test_whole_replies_are_copied_only_where_that_is_asked_for():
    assert HedgeBudget(HedgeConfig(after_s=0.5)).delay_s("m", False) is None
    assert HedgeBudget(HedgeConfig(after_s=0.5, whole_replies=True)).delay_s("m", False) == 0.5


def test_the_percentile_is_learnt_per_model_and_the_fixed_delay_used_until_then():
    hedging = HedgeBudget(HedgeConfig(after_percentile=95, after_s=9))
    for number in range(100):
        assert hedging.delay_s("m", True) == 9 or number >= 20
        hedging.record_first_byte("m", True, number / 100)
    assert 0.85 <= hedging.delay_s("m", True) <= 0.96
    assert hedging.delay_s("other", True) == 9


def test_without_a_fixed_delay_nothing_is_copied_until_enough_is_known():
    hedging = HedgeBudget(HedgeConfig(after_percentile=50))
    for _ in range(19):
        hedging.record_first_byte("m", True, 1.0)
    assert hedging.delay_s("m", True) is None
    hedging.record_first_byte("m", True, 1.0)
    assert hedging.delay_s("m", True) == 1.0


@given(st.lists(st.booleans(), max_size=300), st.sampled_from([0.05, 0.25, 1.0]))
def test_copies_stay_within_their_share_of_the_requests(lates, share):
    hedging = HedgeBudget(HedgeConfig(after_s=1, most_share=share))
    copies = 0
    for requests, late in enumerate(lates, start=1):
        hedging.delay_s("m", True)
        if late and hedging.has_budget:
            hedging.consume_budget()
            copies += 1
        assert copies <= share * requests + 1e-6


def test_what_a_quiet_time_saves_is_bounded():
    hedging = HedgeBudget(HedgeConfig(after_s=1, most_share=0.5))
    for _ in range(1000):
        hedging.delay_s("m", True)
    copies = 0
    while hedging.has_budget:
        hedging.consume_budget()
        copies += 1
    assert copies == 10
