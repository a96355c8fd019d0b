"""Rates and quotas as pure arithmetic: the clock is a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import QuotasConfig, RatesConfig
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants import TenantAccount
from radixway.core.tenants.account import NOTHING, SlidingWindow, UsageEstimate

NOON = 1_763_726_400.0  # 2025-11-21 12:00 UTC
HALF_DAY = 43_200


def account(rates=None, **quotas) -> TenantAccount:
    return TenantAccount("acme", RatesConfig(**(rates or {})), QuotasConfig(**quotas))


def refusal(tenant: TenantAccount, now: float, estimate: UsageEstimate = NOTHING) -> LimitReachedError:
    with pytest.raises(LimitReachedError) as refused:
        tenant.admit_request(now, estimate)
    return refused.value


def test_requests_of_the_last_minute_are_limited_and_the_refusal_says_when_there_is_room():
    tenant = account({"requests_per_minute": 2})
    tenant.admit_request(NOON)
    tenant.admit_request(NOON + 20)
    refused = refusal(tenant, NOON + 30)
    assert (refused.status, refused.code, refused.retry_after_s) == (429, "requests_per_minute", 31)
    assert "'acme'" in str(refused) and "2 requests a minute" in str(refused)
    tenant.admit_request(NOON + 30 + refused.retry_after_s)
    refusal(tenant, NOON + 30 + refused.retry_after_s)


def test_requests_that_are_refused_do_not_count():
    tenant = account({"requests_per_minute": 1})
    tenant.admit_request(NOON)
    for second in range(60):
        refusal(tenant, NOON + second)
    tenant.admit_request(NOON + 61)
    assert tenant.refused == {"requests_per_minute": 60}


def test_only_so_many_are_in_hand_at_a_time():
    tenant = account({"concurrent": 2})
    for _ in range(2):
        tenant.admit_request(NOON)
    assert refusal(tenant, NOON).code == "concurrent"
    tenant.settle_usage(NOON, UsageEstimate(), 0, 0.0)
    tenant.admit_request(NOON)


def test_what_is_in_hand_holds_its_estimate_until_it_is_known_what_it_used():
    tenant = account(tokens_per_day=1000)
    tenant.admit_request(NOON, UsageEstimate(700))
    assert refusal(tenant, NOON, UsageEstimate(700)).code == "tokens_per_day"
    tenant.settle_usage(NOON, UsageEstimate(700), tokens=10, cost=0.0)
    tenant.admit_request(NOON, UsageEstimate(700))
    tenant.check_reservations()


def test_a_request_that_may_use_more_than_a_limit_is_let_in_while_nothing_is_used():
    tenant = account({"tokens_per_minute": 100}, tokens_per_day=100)
    tenant.admit_request(NOON, UsageEstimate(5000))
    tenant.settle_usage(NOON, UsageEstimate(5000), tokens=100, cost=0.0)
    assert refusal(tenant, NOON + 30, UsageEstimate(1)).code == "tokens_per_minute"
    assert refusal(tenant, NOON + 61, UsageEstimate(1)).code == "tokens_per_day"


def test_a_day_ends_at_midnight_and_a_month_with_its_last_day():
    tenant = account(tokens_per_day=100, tokens_per_month=150)
    tenant.admit_request(NOON)
    tenant.settle_usage(NOON, UsageEstimate(), tokens=100, cost=0.0)
    refused = refusal(tenant, NOON)
    assert (refused.code, refused.retry_after_s) == ("tokens_per_day", HALF_DAY)
    tenant.admit_request(NOON + HALF_DAY)
    tenant.settle_usage(NOON + HALF_DAY, UsageEstimate(), tokens=60, cost=0.0)
    refused = refusal(tenant, NOON + 86_400 + HALF_DAY)
    assert (refused.code, refused.retry_after_s) == ("tokens_per_month", 8 * 86_400)
    tenant.admit_request(NOON + 10 * 86_400)


def test_costs_are_limited_in_their_currency():
    tenant = account(cost_per_day=0.5, currency="EUR")
    tenant.admit_request(NOON, UsageEstimate(0, 0.2))
    tenant.settle_usage(NOON, UsageEstimate(0, 0.2), tokens=9, cost=0.5)
    refused = refusal(tenant, NOON)
    assert refused.code == "cost_per_day" and "0.5 EUR a day" in str(refused)


def test_every_limit_is_described_with_what_is_used_of_it():
    tenant = account({"concurrent": 3, "requests_per_minute": 5}, tokens_per_day=100, cost_per_month=2)
    tenant.admit_request(NOON)
    tenant.settle_usage(NOON, UsageEstimate(), tokens=30, cost=0.25)
    told = {limit["name"]: (limit["used"], limit["limit"]) for limit in tenant.describe_limits(NOON)}
    assert told == {
        "concurrent": (0, 3),
        "requests_per_minute": (1, 5),
        "tokens_per_day": (30, 100),
        "cost_per_month": (0.25, 2),
    }


@given(st.lists(st.tuples(st.floats(0, 90), st.integers(0, 50)), max_size=60))
def test_a_window_holds_what_came_within_its_time_and_knows_when_it_leaves(events):
    window, now, happened = SlidingWindow(), 1e9, []
    for pause, amount in events:
        now += pause
        window.add_amount(now, amount)
        happened.append((now, amount))
        window.check()
        least = sum(each for at, each in happened if now - at < 60)
        most = sum(each for at, each in happened if now - at < 61)
        assert least <= window.current_total(now) <= most
    if total := window.current_total(now):
        wait_s = window.frees_in_s(now, 1)
        assert window.current_total(now + wait_s) < total
        assert window.frees_in_s(now, total) <= 61
        assert window.current_total(now + 61) == 0


@given(st.data())
def test_an_account_stays_within_its_quota_whatever_comes_and_goes(data):
    tenant = account({"concurrent": 4}, tokens_per_day=500)
    in_hand: list[UsageEstimate] = []
    used = 0
    for _ in range(data.draw(st.integers(0, 40))):
        if in_hand and data.draw(st.booleans()):
            estimate = in_hand.pop()
            tokens = data.draw(st.integers(0, estimate.tokens))
            used += tokens
            tenant.settle_usage(NOON, estimate, tokens, 0.0)
        else:
            estimate = UsageEstimate(data.draw(st.integers(0, 300)))
            try:
                tenant.admit_request(NOON, estimate)
            except LimitReachedError:
                pass
            else:
                in_hand.append(estimate)
        tenant.check_reservations()
        assert used <= 500 and len(in_hand) <= 4


_LIMITS = st.none() | st.integers(1, 60)


@given(
    st.fixed_dictionaries(
        {"concurrent": _LIMITS, "requests_per_minute": _LIMITS, "tokens_per_minute": _LIMITS}
    ),
    st.fixed_dictionaries({"tokens_per_day": _LIMITS, "tokens_per_month": _LIMITS, "cost_per_day": _LIMITS}),
    st.lists(st.tuples(st.floats(0, 40), st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=40),
)
def test_who_is_let_in_is_what_a_look_at_every_limit_says(rates, quotas, events):
    tenant, now = account(rates, **quotas), NOON + HALF_DAY - 300
    in_hand: list[UsageEstimate] = []
    for pause, tokens, cost, ends in events:
        now += pause
        if ends and in_hand:
            tenant.settle_usage(now, in_hand.pop(), tokens, cost / 7)
        else:
            estimate = UsageEstimate(tokens, cost / 7)
            codes: list[str | None] = []
            for decide in (tenant.check_limits, tenant.admit_request):
                try:
                    decide(now, estimate)
                    codes.append(None)
                except LimitReachedError as refused:
                    codes.append(refused.code)
            assert codes[0] == codes[1]
            if codes[1] is None:
                in_hand.append(estimate)
        tenant.check_reservations()
