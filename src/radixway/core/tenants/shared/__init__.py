"""Limits of all gateways together: the accounts lie in Valkey or Redis, and a script there decides.

It is imported where `scale.limits` is configured.
"""

from radixway.core.tenants.shared.limits import SharedLimits

__all__ = ["SharedLimits"]
