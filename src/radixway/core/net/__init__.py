"""Calls to addresses that users name: public ones only, bounded in time and size.

Whatever fetches or calls what a user or a stranger's document points at goes through `UrlFetcher`.
"""

from radixway.core.net.fetcher import (
    AddressAllowlist,
    FetchedResource,
    FetchError,
    TooManyRedirectsError,
    UrlFetcher,
)

__all__ = ["AddressAllowlist", "FetchError", "FetchedResource", "TooManyRedirectsError", "UrlFetcher"]
