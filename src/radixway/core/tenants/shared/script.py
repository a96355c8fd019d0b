"""The server's script for one tenant: count what was used, then judge who wants to come in.

The rules are those of `tenants.account.Account`; windows go by the server's clock, days and months by the
names that gateways give them. What a gateway has in hand stands in a field of its own, as its latest step
said, with the time until which it counts: one that is killed holds its places no longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from radixway.bundled import read_text
from radixway.core.config import QuotasConfig, RatesConfig
from radixway.core.tenants.account import UsageEstimate

LIMITS = (
    "concurrent",
    "requests_per_minute",
    "tokens_per_minute",
    "tokens_per_day",
    "cost_per_day",
    "tokens_per_month",
    "cost_per_month",
)
"""In the order in which they are judged."""

STEP = read_text("tenant_limits.lua")


class AdmissionVerdict(NamedTuple):
    """Of one request."""

    limit: str | None
    """What it is over; None: it is in."""
    wait_s: int
    """Of windows, when there is room; of days and months, the gateway knows."""


def tenant_keys(prefix: str, tenant: str, day: str) -> list[str]:
    """The server's keys; all of a tenant's in one slot of a cluster. `day`: UTC, as 2026-11-21."""
    home = f"{prefix}{{{tenant}}}:"
    return [
        f"{home}{name}" for name in ("requests", "tokens", f"day:{day}", f"month:{day[:7]}", "hands", "seen")
    ]


def limit_arguments(rates: RatesConfig, quotas: QuotasConfig) -> list[str]:
    """Return `rates` and `quotas` as the script reads them, in the order of `LIMITS`."""
    found: dict[str, float | None] = rates.model_dump() | quotas.model_dump(exclude={"currency"})
    return ["" if found[name] is None else repr(found[name]) for name in LIMITS]


def estimate_arguments(estimates: Iterable[UsageEstimate]) -> list[str]:
    """Return `estimates` of waiting requests as the script reads them."""
    return [text for each in estimates for text in (str(each.tokens), repr(each.cost))]


def parse_step_reply(
    answer: Sequence[Sequence[bytes | int]],
) -> tuple[list[AdmissionVerdict], dict[str, float]]:
    """Parse the script's reply: a verdict for each, in their order, and what is used of each limit."""
    told, sums = answer
    verdicts = [
        AdmissionVerdict(LIMITS[int(which) - 1] if which else None, int(wait_s))
        for which, wait_s in zip(told[::2], told[1::2], strict=True)
    ]
    return verdicts, {name: float(sum_) for name, sum_ in zip(LIMITS, sums, strict=True)}
