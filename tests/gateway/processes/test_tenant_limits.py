"""The supervisor's accounts: as one process would judge, whichever child asks, and whatever becomes of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import RatesConfig, load_config
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants.account import NOTHING, TenantAccount, UsageEstimate
from radixway.gateway.processes.control_messages import LimitsRequest, UsageSettled
from radixway.gateway.processes.tenant_limits import LimitsAuthority, ProcessLimits


def tenants(**limits):
    return load_config(None, {"tenants": {"team": limits}}).tenants


LIMITED = {"rates": {"concurrent": 3, "tokens_per_minute": 100}, "quotas": {"tokens_per_day": 150}}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 2), st.integers(0, 60)),
            st.tuples(st.just("settle"), st.integers(0, 2), st.integers(0, 60)),
            st.tuples(st.just("die"), st.integers(0, 2), st.just(0)),
        ),
        max_size=40,
    )
)
def test_children_are_judged_as_one_process(steps):
    section = tenants(**LIMITED)
    now = 1_000_000.0
    authority = LimitsAuthority(section, lambda: now)
    alone = TenantAccount("team", section.named["team"].rates, section.named["team"].quotas)
    held = {child: [] for child in range(3)}
    for step, child, tokens in steps:
        now += 1
        if step == "ask":
            answer = authority.handle_message(str(child), LimitsRequest(0, "team", tokens))
            try:
                alone.admit_request(now, UsageEstimate(tokens))
            except LimitReachedError as error:
                assert (answer.limit, answer.wait_s) == (error.code, error.retry_after_s)
            else:
                assert answer.limit is None
                held[child].append(tokens)
        elif step == "settle" and held[child]:
            reserved = held[child].pop(0)
            authority.handle_message(str(child), UsageSettled("team", reserved, 0.0, tokens, 0.0))
            alone.settle_usage(now, UsageEstimate(reserved), tokens, 0.0)
        elif step == "die":
            authority.release_child(str(child))
            for reserved in held[child]:
                alone.settle_usage(now, UsageEstimate(reserved), 0, 0.0)
            held[child] = []
        authority.check()
        used = authority.handle_message("0", LimitsRequest(0, "team", only_used=True)).used
        assert used == {limit["name"]: limit["used"] for limit in alone.describe_limits(now)}


def test_limits_change_while_requests_run():
    authority = LimitsAuthority(tenants(rates={"concurrent": 2}), lambda: 1_000_000.0)
    ask = LimitsRequest(0, "team", 10)
    assert [authority.handle_message("a", ask).limit for _ in range(3)] == [None, None, "concurrent"]
    authority.set_tenants(tenants(rates={"concurrent": 3}, quotas={"tokens_per_day": 25}))
    assert authority.handle_message("b", ask).limit == "tokens_per_day"
    authority.set_tenants(tenants())
    assert authority.handle_message("b", ask).limit is None
    for child in ("a", "a", "b"):
        authority.handle_message(child, UsageSettled("team", 10, 0.0, 5, 0.0))
    authority.check()


async def test_a_client_that_leaves_before_the_answer_holds_nothing():
    authority = LimitsAuthority(tenants(rates={"concurrent": 1}), lambda: 1_000_000.0)
    sent = []
    limits = ProcessLimits(sent.append)
    account = TenantAccount("team", *_limits_of(tenants(rates={"concurrent": 1})))
    asking = asyncio.create_task(limits.admit_request(account, 1_000_000.0))
    await asyncio.sleep(0)
    answer = authority.handle_message("a", sent.pop())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    limits.receive_reply(answer)
    await asyncio.sleep(0)
    authority.handle_message("a", sent.pop())
    authority.check()
    assert account.in_flight == 0
    assert authority.handle_message("a", LimitsRequest(1, "team")).limit is None


def _limits_of(section):
    return section.named["team"].rates, section.named["team"].quotas


async def test_rates_of_keys_made_at_run_time_come_with_their_requests():
    authority = LimitsAuthority(tenants(), lambda: 1_000_000.0)
    sent = []
    limits = ProcessLimits(sent.append)
    account = TenantAccount("key:1", owner_kind="key")
    account.estimates = True
    await limits.admit_request(account, 1_000_000.0)

    async def admit() -> None:
        asking = asyncio.create_task(limits.admit_request(account, 1_000_000.0))
        await asyncio.sleep(0)
        limits.receive_reply(authority.handle_message("a", sent.pop()))
        await asking

    limits.settle_usage(account, 1_000_000.0, NOTHING, 1, 0.0)  # it came in before there were limits
    account.set_limits(RatesConfig(concurrent=1), account.quotas)
    await admit()
    with pytest.raises(LimitReachedError):
        await admit()
    account.set_limits(RatesConfig(concurrent=2), account.quotas)
    await admit()
    account.set_limits(RatesConfig(), account.quotas)
    for _ in range(2):
        limits.settle_usage(account, 1_000_000.0, NOTHING, 1, 0.0)
        authority.handle_message("a", sent.pop())
    authority.check()
