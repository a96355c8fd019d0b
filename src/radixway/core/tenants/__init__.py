"""Tenants: their keys, their limits, and their usage.

A key names tenant, user and scopes (`keys`); a `TenantAccount` lets requests in and is told what became of
them; the `UsageLedger` counts tokens and costs by day, tenant, model and category, and a file keeps them.

State, and the file that owns it:

- `account.py`: what tenants have in flight and have used; every request let in is settled
  once, on every way out; `check()`
- `shared_limits.py`: the same for all gateways, in Valkey; each step is numbered and counts once
- `usage_ledger.py`: usage by day, tenant, model and category, written as deltas, one transaction each
"""

from radixway.core.tenants.account import TenantAccount
from radixway.core.tenants.keys import KeyRing, KnownKey, request_keys
from radixway.core.tenants.pricing import PriceList, TokenCost
from radixway.core.tenants.service import TenantService, build_tenant_service
from radixway.core.tenants.usage_ledger import ChargedUsage, UsageLedger

__all__ = [
    "ChargedUsage",
    "KeyRing",
    "KnownKey",
    "PriceList",
    "TenantAccount",
    "TenantService",
    "TokenCost",
    "UsageLedger",
    "build_tenant_service",
    "request_keys",
]
