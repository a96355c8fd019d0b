"""Calls to addresses that users name: public ones only, bounded in time and size.

All calls to addresses from users and foreign documents go through `UrlFetcher`.
"""

from radixway.core.net.fetcher import (
    AddressAllowlist,
    FetchedResource,
    FetchError,
    TooManyRedirectsError,
    UrlFetcher,
)

__all__ = ["AddressAllowlist", "FetchError", "FetchedResource", "TooManyRedirectsError", "UrlFetcher"]
