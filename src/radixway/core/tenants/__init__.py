"""Tenants: their keys, their limits, and their usage.

A key names tenant, user and scopes (`keys`); a `TenantAccount` lets requests in and is told what became of
them; the `UsageLedger` counts tokens and costs by day, tenant, model and category, and a file keeps them.

State, and the file that owns it:

- `budgets.py`: what keys, users and teams made at run time have spent, and what of it the store does not
  have yet
- `account.py`: what tenants have in flight and have used; every request let in is settled
  once, on every way out; `check()`
- `shared_limits.py`: the same for all gateways, in Valkey; each step is numbered and counts once
- `usage_ledger.py`: usage by day, tenant, model and category, written as deltas, one transaction each
"""

from radixway.core.tenants.account import TenantAccount
from radixway.core.tenants.budget_period import BudgetPeriod
from radixway.core.tenants.budgets import (
    BudgetExceededError,
    KeyAccess,
    SpendAccount,
    SpenderKind,
    SpendKey,
    SpendLimits,
    SpendRows,
)
from radixway.core.tenants.keys import KeyRing, KnownKey, digest_key, request_keys
from radixway.core.tenants.pricing import PriceList, TokenCost
from radixway.core.tenants.service import TenantService, build_tenant_service
from radixway.core.tenants.stream_usage import StreamUsage
from radixway.core.tenants.usage_ledger import ChargedUsage, UsageLedger, UsageTotals, day_of

__all__ = [
    "BudgetExceededError",
    "BudgetPeriod",
    "ChargedUsage",
    "KeyAccess",
    "KeyRing",
    "KnownKey",
    "PriceList",
    "SpendAccount",
    "SpendKey",
    "SpendLimits",
    "SpendRows",
    "SpenderKind",
    "StreamUsage",
    "TenantAccount",
    "TenantService",
    "TokenCost",
    "UsageLedger",
    "UsageTotals",
    "build_tenant_service",
    "day_of",
    "digest_key",
    "request_keys",
]
