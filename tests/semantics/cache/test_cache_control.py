"""cache-control and x-vsr-cache-control of a request."""

import pytest

from radixway.semantics.cache.cache_control import ANYTHING, CacheDirectives, read_directives


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, ANYTHING),
        ("", ANYTHING),
        ("no-cache", CacheDirectives(may_answer=False)),
        ("No-Store", CacheDirectives(may_answer=False, may_keep=False)),
        ("bypass", CacheDirectives(may_answer=False, may_keep=False)),
        ("max-age=60", CacheDirectives(max_age_s=60)),
        ('max-age="60", ttl=5', CacheDirectives(max_age_s=60, ttl_s=5)),
        ("max-age=60,max-age=30", CacheDirectives(max_age_s=30)),
        ("max-age=soon", CacheDirectives(max_age_s=0)),
        ("max-age=-1", CacheDirectives(max_age_s=0)),
        ("max-age=" + "9" * 400, CacheDirectives(max_age_s=10**9)),
        ("private, immutable", ANYTHING),
    ],
)
def test_what_a_client_says_is_understood(header, expected):
    assert read_directives(header) == expected
