"""What a key, user or team may spend, and when that begins anew."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from radixway.core.pipeline import ForbiddenError, LimitReachedError, UnauthorizedError
from radixway.core.tenants import (
    BudgetExceededError,
    BudgetPeriod,
    KeyAccess,
    SpendAccount,
    SpendLimits,
    SpendRows,
    UsageTotals,
)
from radixway.core.tenants.account import UsageEstimate


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def account(kind="key", **limits) -> SpendAccount:
    return SpendAccount(kind, "1", "one", SpendLimits(**limits), "USD")


def access(*accounts: SpendAccount, rows: SpendRows | None = None, **more) -> KeyAccess:
    rows = SpendRows() if rows is None else rows
    return KeyAccess("1", accounts, rows, user_id=None, team_id="red", currency="USD", **more)


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1y", "1.5h", "30 days", "99999999d", "9999mo"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration"):
        BudgetPeriod(text)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("30s", "2026-01-01T00:00:00", "2026-01-01T00:00:30"),
        ("12h", "2026-01-01T00:00:00", "2026-01-01T12:00:00"),
        ("2w", "2026-01-01T00:00:00", "2026-01-15T00:00:00"),
        ("1mo", "2026-01-31T10:00:00", "2026-02-28T10:00:00"),
        ("13mo", "2026-01-31T10:00:00", "2027-02-28T10:00:00"),
    ],
)
def test_a_period_has_an_end(text, start, end):
    assert BudgetPeriod(text).after(at(start)) == at(end)


def test_periods_that_nobody_saw_pass_are_skipped():
    assert BudgetPeriod("1d").next_end(at("2026-01-02"), at("2026-01-05T12:00")) == at("2026-01-06")
    assert BudgetPeriod("1mo").next_end(at("2026-01-31"), at("2026-03-30")) == at("2026-03-31")
    assert BudgetPeriod("1d").next_end(10.0, 10.0) == 10.0 + 86_400


async def test_an_estimate_is_reserved_and_replaced_by_what_was_used():
    one = account(max_budget=10)
    await one.admit_request(0, UsageEstimate(1, 6))
    with pytest.raises(BudgetExceededError) as refused:
        await one.admit_request(0, UsageEstimate(1, 6))
    assert refused.value.param == "key" and refused.value.retry_after_s is None
    one.settle_usage(0, UsageEstimate(1, 6), 1, 2.0)
    await one.admit_request(0, UsageEstimate(1, 6))
    one.settle_usage(0, UsageEstimate(1, 6), 1, 8.0)
    one.check()
    assert one.spent_now == 10
    with pytest.raises(BudgetExceededError):
        await one.admit_request(0, UsageEstimate())


async def test_a_key_that_has_spent_nothing_is_let_in_whatever_is_expected():
    one = account(max_budget=1)
    await one.admit_request(0, UsageEstimate(1, 500))
    assert one.in_flight == 1


async def test_spending_begins_anew_with_a_period_and_what_is_late_counts_in_all_alone():
    one = account(max_budget=10, budget_duration="1d")
    one.load_spending(0, 9.0, 100.0)
    await one.admit_request(99, UsageEstimate())
    one.settle_usage(99, UsageEstimate(), 1, 3.0)
    with pytest.raises(BudgetExceededError):
        await one.admit_request(99, UsageEstimate())
    await one.admit_request(100, UsageEstimate())
    assert one.spent_now == 0 and one.resets_at == 100 + 86_400
    assert one.take_unsaved() == (0.0, 3.0)


async def test_what_is_being_saved_counts_all_the_time():
    one = account(max_budget=10)
    await one.admit_request(0, UsageEstimate())
    one.settle_usage(0, UsageEstimate(), 1, 4.0)
    assert one.take_unsaved() == (4.0, 0.0) and one.spent_now == 4
    one.restore_unsaved(0.0)
    assert one.has_unsaved and one.spent_now == 4
    one.take_unsaved()
    one.confirm_saved()
    one.load_spending(0, 7.0, None)  # another gateway spent 3
    assert one.spent_now == 7 and not one.has_unsaved


async def test_a_request_is_let_in_by_all_or_by_none():
    key, team = account(), account("team", max_parallel_requests=1)
    both = access(key, team)
    await both.admit_request(0, UsageEstimate(5, 1))
    with pytest.raises(LimitReachedError, match="the team 'one'"):
        await both.admit_request(0, UsageEstimate(5, 1))
    assert (key.in_flight, team.in_flight) == (1, 1)
    both.settle_usage(0, UsageEstimate(5, 1), "m", "USD", UsageTotals(requests=1, cost=2.0))
    for one in (key, team):
        one.check()
        assert one.spent_now == 2


async def test_costs_in_another_currency_are_told_and_spend_nothing():
    rows, one = SpendRows(), account(max_budget=1)
    key = access(one, rows=rows)
    await key.admit_request(0, UsageEstimate())
    key.settle_usage(0, UsageEstimate(), "m", "EUR", UsageTotals(requests=1, cost=5.0))
    assert one.spent_now == 0
    assert [(row.currency, figures.cost) for row, figures in rows.take_rows().items()] == [("EUR", 5.0)]


@pytest.mark.parametrize(
    ("patterns", "path", "allowed"),
    [
        (["/v1/chat/completions"], "/v1/chat/completions", True),
        (["/chat/completions"], "/v1/chat/completions", True),
        (["/v1/*"], "/v1/embeddings", True),
        (["/v1/chat/*"], "/v1/embeddings", False),
        (["/v1/*"], "/generate", False),
        (["/v1/rerank"], "/rerank", True),
        (["llm_api_routes"], "/v1/embeddings", True),
        ([], "/generate", True),
    ],
)
def test_a_key_is_held_to_its_endpoints(patterns, path, allowed):
    key = access(endpoints=patterns)
    for _ in range(2):
        if allowed:
            key.check_call(path, 0)
        else:
            with pytest.raises(ForbiddenError):
                key.check_call(path, 0)


def test_a_key_ends_when_it_expires():
    key = access(expires_at=10.0)
    key.check_call("/generate", 9.9)
    with pytest.raises(UnauthorizedError):
        key.check_call("/generate", 10.0)
