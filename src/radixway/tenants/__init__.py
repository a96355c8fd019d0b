"""Whose requests these are, how much they may use, and what they have used.

A key names tenant, user and scopes (`keys`); an `Account` lets requests in and is told what became of them;
the `UsageBook` counts tokens and costs by day, tenant, model and category, and a file keeps them.
"""

from radixway.tenants.account import Account, Estimate
from radixway.tenants.book import Figures, UsageBook, UsageKey, Use
from radixway.tenants.keys import KeyRing, KnownKey, keys_in
from radixway.tenants.limits import Limits
from radixway.tenants.prices import Price, Prices
from radixway.tenants.room import TenantsRoom, build_tenants
from radixway.tenants.salting import Salting
from radixway.tenants.window import Window

__all__ = [
    "Account",
    "Estimate",
    "Figures",
    "KeyRing",
    "KnownKey",
    "Limits",
    "Price",
    "Prices",
    "Salting",
    "TenantsRoom",
    "UsageBook",
    "UsageKey",
    "Use",
    "Window",
    "build_tenants",
    "keys_in",
]
