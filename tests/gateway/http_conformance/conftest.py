"""One gateway behind each way of serving it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from support.raw_http import SERVERS, ThreadedGateway, gateway_in_a_thread

PAGE = "http://page.example"
MAX_BODY_BYTES = 100_000


@contextmanager
def serving_in_each_way(**gateway: Any) -> Iterator[dict[str, ThreadedGateway]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                gateway_in_a_thread(
                    name,
                    chat={"enabled": False},
                    gateway={"max_body_bytes": MAX_BODY_BYTES} | gateway,
                )
            )
            for name in SERVERS
        }


@pytest.fixture(scope="module")
def all_servers() -> Iterator[dict[str, ThreadedGateway]]:
    with serving_in_each_way() as servers:
        yield servers


@pytest.fixture(scope="module")
def all_page_servers() -> Iterator[dict[str, ThreadedGateway]]:
    with serving_in_each_way(cors_origins=[PAGE]) as servers:
        yield servers


def forgetting(servers: dict[str, ThreadedGateway]) -> Iterator[dict[str, ThreadedGateway]]:
    yield servers
    for server in servers.values():
        server.close_clients()
        server.wait_until_idle()
        server.take_seen()
        errors, server.errors[:] = list(server.errors), []
        assert not errors, "\n".join(errors)


@pytest.fixture
def servers(all_servers: dict[str, ThreadedGateway]) -> Iterator[dict[str, ThreadedGateway]]:
    """All of `SERVERS`, without traces of the test before; at the end they have logged no error."""
    yield from forgetting(all_servers)


@pytest.fixture
def page_servers(all_page_servers: dict[str, ThreadedGateway]) -> Iterator[dict[str, ThreadedGateway]]:
    """The same where pages of another site may ask."""
    yield from forgetting(all_page_servers)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: dict[str, ThreadedGateway]) -> ThreadedGateway:
    """Each of `servers`."""
    return servers[request.param]
