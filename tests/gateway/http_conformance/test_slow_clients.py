"""Clients that send slowly or not at all, do not read, or leave; and where there are too many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.raw_cases import COLD, HEAD, HEALTH, HOT, chat_request, raw_request
from support.raw_http import SERVERS, RawClient, ThreadedGateway, gateway_in_a_thread

SHORT_S = 0.2
TIMEOUTS = dict.fromkeys(("header_timeout_s", "body_timeout_s", "keep_alive_s", "send_timeout_s"), SHORT_S)


def serving(server: str, limits: dict[str, float]) -> Iterator[ThreadedGateway]:
    with gateway_in_a_thread(server, chat={"enabled": False}, limits={"server": limits}) as running:
        yield running


def clean(server: ThreadedGateway) -> Iterator[ThreadedGateway]:
    """`server` without traces of the test before; at the end it has logged no error."""
    yield server
    server.release()
    server.wait_until_idle()
    server.echo.release.clear()
    server.worker.hung_up.clear()
    server.take_seen()
    errors, server.errors[:] = list(server.errors), []
    assert not errors, "\n".join(errors)


@pytest.fixture(scope="module", params=SERVERS)
def with_timeouts(request: pytest.FixtureRequest) -> Iterator[ThreadedGateway]:
    yield from serving(request.param, TIMEOUTS)


@pytest.fixture(scope="module", params=SERVERS)
def with_few_connections(request: pytest.FixtureRequest) -> Iterator[ThreadedGateway]:
    yield from serving(request.param, {"max_connections": 4})


@pytest.fixture
def impatient(with_timeouts: ThreadedGateway) -> Iterator[ThreadedGateway]:
    """A gateway that waits for nobody longer than `SHORT_S`."""
    yield from clean(with_timeouts)


@pytest.fixture
def crowded(with_few_connections: ThreadedGateway) -> Iterator[ThreadedGateway]:
    """A gateway that may have four connections."""
    yield from clean(with_few_connections)


def small_reader(server: ThreadedGateway) -> RawClient:
    """A client whose socket holds little of what it does not read."""
    return server.connect(receive_buffer_bytes=4096)


def check_refused(clients: list[RawClient], code: str) -> None:
    """Check that each of `clients` is told by 408 and `code` that it was too slow."""
    for client in clients:
        answer = client.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (408, code)
        assert client.rest() == b""


def test_a_head_that_does_not_end_is_answered_with_408(impatient):
    clients = []
    for path in (HOT, COLD):
        for part in (1, 20, -1):
            clients.append(client := impatient.connect())
            client.send(raw_request(HEAD + b"content-length: 5\r\n\r\n", path)[:part])
    check_refused(clients, "header_timeout")


def test_a_head_that_does_not_end_behind_an_answer_is_answered_with_408(impatient):
    clients = []
    for path in (HOT, COLD):
        clients.append(client := impatient.connect())
        client.send(chat_request(path, "hello"))
        assert client.answer().said() == "hello"
        client.send(chat_request(path, "hello")[:20])
    check_refused(clients, "header_timeout")


def test_a_connection_without_a_request_is_closed_in_silence(impatient):
    clients = []
    for before in (b"", b"\r\n", HEALTH, chat_request(HOT, "hello")):
        clients.append(client := impatient.connect())
        client.send(before)
        if len(before) > 2:
            assert client.answer().status == 200
    for client in clients:
        assert client.rest() == b""


def test_a_body_that_does_not_come_is_answered_with_408(impatient):
    sized, chunked = b"content-length: 500\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"
    clients = []
    for path in (HOT, COLD):
        for rest in (sized, sized + b"{", chunked, chunked + b"64\r\n{", chunked + b"f" * 16 + b"\r\n"):
            clients.append(client := impatient.connect())
            client.send(raw_request(HEAD + rest, path))
    check_refused(clients, "body_timeout")
    assert impatient.take_seen() == []


@pytest.mark.parametrize(
    ("path", "said", "fields"),
    [(HOT, "flood", {}), (HOT, "flood", {"stream": True}), (COLD, "flood", {})],
    ids=["hot", "hot stream", "cold"],
)
def test_a_client_that_does_not_read_is_cut_off(impatient, path, said, fields):
    client = small_reader(impatient)
    client.send(chat_request(path, said, **fields))
    impatient.wait_for_requests(1)
    impatient.wait_until(lambda: not impatient.connections())
    if fields:
        impatient.wait_until(impatient.worker.hung_up.is_set)


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_client_that_leaves_ends_its_request(crowded, how):
    client = crowded.connect()
    client.send(chat_request(HOT, "hold"))
    crowded.wait_for_requests(1)
    leave(client, how)
    crowded.wait_until(crowded.worker.hung_up.is_set)
    assert crowded.connect().is_kept()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("said", ["hold", "wait", "flood"])
def test_a_client_that_leaves_a_stream_ends_it(crowded, how, said):
    client = crowded.connect()
    client.send(chat_request(HOT, said, stream=True))
    assert b" 200 " in client.read_until(b"\r\n\r\n")
    client.read_until(b"\n\n")
    leave(client, how)
    crowded.wait_until(lambda: not crowded.connections())
    crowded.release()
    crowded.wait_until(crowded.worker.hung_up.is_set)


@pytest.mark.parametrize("path", [HOT, COLD])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("part", [0, 1, 30, -30, -1])
def test_a_client_that_leaves_within_its_request_leaves_nothing(crowded, path, how, part):
    client = crowded.connect()
    client.send(chat_request(path, "hello")[:part] if part else b"")
    leave(client, how)
    crowded.wait_until(lambda: not crowded.connections())
    assert crowded.take_seen() == []


def test_a_half_closed_client_is_one_that_left(crowded):
    for path in (HOT, COLD):
        client = crowded.connect()
        client.send(chat_request(path, "wait"))
        crowded.wait_for_requests(1)
        leave(client, "half")
        assert client.rest() == b""
        crowded.take_seen()


@pytest.mark.parametrize("path", [HOT, COLD])
def test_where_all_connections_are_busy_a_new_one_is_refused(crowded, path):
    busy = [crowded.connect() for _ in range(4)]
    for client in busy:
        client.send(chat_request(path, "wait"))
    crowded.wait_for_requests(4)
    refused = crowded.connect()
    answer = refused.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (503, "too_many_connections")
    assert answer.headers["retry-after"] == "1"
    assert refused.rest() == b""
    crowded.release()
    assert [client.answer().said() for client in busy] == ["wait"] * 4


def test_a_new_connection_takes_the_place_of_an_idle_one(crowded):
    idle = crowded.connect()
    idle.send(chat_request(HOT, "hello"))
    assert idle.answer().said() == "hello"
    busy = [crowded.connect() for _ in range(3)]
    for client in busy:
        client.send(chat_request(HOT, "wait"))
    crowded.wait_for_requests(4)
    client = crowded.connect()
    client.send(HEALTH)
    assert client.answer().status == 200
    assert idle.rest() == b""
    crowded.release()
    assert [client.answer().said() for client in busy] == ["wait"] * 3


def test_a_client_that_reads_and_sends_no_more_ends_its_stream(crowded):
    client = small_reader(crowded)
    client.send(chat_request(HOT, "flood", stream=True))
    assert b" 200 " in client.read_until(b"\r\n\r\n")
    crowded.wait_until(crowded.unread_answers)
    leave(client, "half")
    crowded.wait_until(lambda: not crowded.connections())


def leave(client: RawClient, how: str) -> None:
    getattr(client, {"close": "close", "reset": "reset", "half": "end_sending"}[how])()
