"""Calls to addresses that users name: public ones only, bounded in time and size.

Whatever fetches or calls what a user or a stranger's document points at goes through `UrlFetcher`.
"""

from radixway.core.net.fetcher import (
    AddressAllowlist,
    BadUrlError,
    FetchedResource,
    FetchError,
    FetchTimeoutError,
    HostUnreachableError,
    NotPublicAddressError,
    TooManyRedirectsError,
    UrlFetcher,
    is_public,
)

__all__ = [
    "AddressAllowlist",
    "BadUrlError",
    "FetchError",
    "FetchTimeoutError",
    "FetchedResource",
    "HostUnreachableError",
    "NotPublicAddressError",
    "TooManyRedirectsError",
    "UrlFetcher",
    "is_public",
]
