"""Whose requests these are, how much they may use, and what they have used.

A key names tenant, user and scopes (`keys`); an `TenantAccount` lets requests in and is told what became of
them; the `UsageLedger` counts tokens and costs by day, tenant, model and category, and a file keeps them.
"""

from radixway.tenants.account import TenantAccount, UsageEstimate
from radixway.tenants.book import ChargedUsage, UsageKey, UsageLedger, UsageTotals
from radixway.tenants.keys import KeyRing, KnownKey, request_keys
from radixway.tenants.limits import TenantLimits
from radixway.tenants.prices import PriceList, TokenCost
from radixway.tenants.room import TenantService, build_tenant_service
from radixway.tenants.salting import CacheSalting
from radixway.tenants.window import SlidingWindow

__all__ = [
    "CacheSalting",
    "ChargedUsage",
    "KeyRing",
    "KnownKey",
    "PriceList",
    "SlidingWindow",
    "TenantAccount",
    "TenantLimits",
    "TenantService",
    "TokenCost",
    "UsageEstimate",
    "UsageKey",
    "UsageLedger",
    "UsageTotals",
    "build_tenant_service",
    "request_keys",
]
