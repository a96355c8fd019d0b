"""Wrong keys are counted by address, for a minute, in bounded memory."""

import pytest

from radixway.core.http import HttpError
from radixway.core.http.attempt_limiter import AttemptLimiter


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_wrong_keys_count_for_a_minute_for_each_address_and_for_all():
    clock = Clock()
    attempts = AttemptLimiter(2, clock, max_total=20)
    for _ in range(2):
        assert not attempts.retry_after_s("a")
        attempts.record_failure("a")
    assert attempts.retry_after_s("a") == 60 and not attempts.retry_after_s("b")
    for number in range(18):
        attempts.record_failure(f"c{number}")
    assert attempts.retry_after_s("b") == 60
    clock.now += 59.5
    assert attempts.retry_after_s("a") == 1
    clock.now += 1
    assert not attempts.retry_after_s("a") and not attempts.retry_after_s("b")


def test_addresses_beyond_the_bound_push_out_the_oldest():
    clock = Clock()
    attempts = AttemptLimiter(1, clock, max_addresses=100)
    for number in range(1000):
        clock.now += 0.001
        attempts.record_failure(f"10.0.{number // 250}.{number % 250}")
        assert len(attempts) <= 100
    assert attempts.retry_after_s("10.0.3.249") and not attempts.retry_after_s("10.0.0.0")


def test_of_ipv6_a_site_has_a_whole_64():
    attempts = AttemptLimiter(2, Clock())
    attempts.record_failure("2001:db8:0:1::1")
    attempts.record_failure("2001:db8:0:1:ffff::2")
    assert attempts.retry_after_s("2001:db8:0:1::3") and not attempts.retry_after_s("2001:db8:0:2::1")
    assert len(attempts) == 1


def test_an_ipv4_address_is_one_however_it_is_written():
    attempts = AttemptLimiter(2, Clock())
    attempts.record_failure("192.0.2.1")
    attempts.record_failure("::ffff:192.0.2.1")
    assert attempts.retry_after_s("192.0.2.1") and not attempts.retry_after_s("192.0.2.2")


def test_a_request_that_is_looked_at_twice_counts_once():
    attempts = AttemptLimiter(1, Clock())
    first = {"client": ("192.0.2.1", 1)}
    attempts.count_wrong_key(first)
    attempts.count_wrong_key(first)
    with pytest.raises(HttpError) as refused:
        attempts.count_wrong_key({"client": ("192.0.2.1", 2)})
    assert (refused.value.code, refused.value.retry_after_s) == ("too_many_wrong_keys", 60)
    attempts.count_wrong_key({"client": None})
