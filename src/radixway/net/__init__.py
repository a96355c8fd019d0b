"""Calls to addresses that users name: public ones only, bounded in time and size.

Whatever fetches or calls what a user or a stranger's document points at goes through `Fetcher`.
"""

from radixway.net.addresses import Allowed, is_public
from radixway.net.fetcher import (
    BadUrl,
    Fetched,
    Fetcher,
    FetchError,
    NotPublic,
    TimedOut,
    TooManyRedirects,
    Unreachable,
)

__all__ = [
    "Allowed",
    "BadUrl",
    "FetchError",
    "Fetched",
    "Fetcher",
    "NotPublic",
    "TimedOut",
    "TooManyRedirects",
    "Unreachable",
    "is_public",
]
