"""How many files a server's process may have open."""

import resource

from radixway.core.http import ServerLimits, raise_file_limit


def test_a_limit_that_the_system_does_not_grant_stays_as_it_is(monkeypatch):
    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")  # macOS, whose hard limit is none

    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_file_limit()
    assert ServerLimits().effective_max_connections() >= 8
