"""What connections see when the server is asked to stop."""

from __future__ import annotations

import socket

import pytest

from support.raw_cases import COLD, HOT, chat_request
from support.raw_http import SERVERS, gateway_in_a_thread

pytestmark = pytest.mark.parametrize("which", SERVERS)


def test_what_is_under_way_is_finished_and_what_is_idle_ends(which):
    with gateway_in_a_thread(which, chat={"enabled": False}, gateway={"drain_s": 30}) as server:
        idle = {path: server.connect() for path in (HOT, COLD)}
        for path, client in idle.items():
            client.send(chat_request(path, "hello"))
            assert client.answer().said() == "hello"
        unused = server.connect()
        whole = {path: server.connect() for path in (HOT, COLD)}
        for path, client in whole.items():
            client.send(chat_request(path, "wait"))
        stream = server.connect()
        stream.send(chat_request(HOT, "wait", stream=True))
        begun = stream.read_until(b"\n\n")
        server.wait_for_requests(5)
        server.stop()
        for client in (*idle.values(), unused):
            assert client.rest() == b""
        with pytest.raises(OSError):
            socket.create_connection((server.host, server.port), timeout=5).recv(1)
        server.release()
        for client in whole.values():
            assert client.answer().said() == "wait"
            assert client.rest() == b""
        rest = stream.rest()
        assert begun.startswith(b"HTTP/1.1 200 ")
        assert b"[DONE]" in rest and rest.endswith(b"0\r\n\r\n")
        assert not server.errors


def test_what_is_not_finished_in_time_is_told_so(which):
    with gateway_in_a_thread(which, chat={"enabled": False}, gateway={"drain_s": 0.1}) as server:
        whole = {path: server.connect() for path in (HOT, COLD)}
        for path, client in whole.items():
            client.send(chat_request(path, "hold"))
        stream = server.connect()
        stream.send(chat_request(HOT, "hold", stream=True))
        stream.read_until(b"\n\n")
        server.wait_for_requests(3)
        server.stop()
        for client in whole.values():
            answer = client.answer()
            assert (answer.status, answer.json()["error"]["code"]) == (503, "server_stopping")
            assert client.rest() == b""
        rest = stream.rest()
        assert b"server_stopping" in rest and b"[DONE]" not in rest
        assert not server.errors


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_request_that_waits_behind_another_is_still_answered(which, path):
    with gateway_in_a_thread(which, chat={"enabled": False}, gateway={"drain_s": 30}) as server:
        client = server.connect()
        client.send(chat_request(path, "wait") + chat_request(path, "behind"))
        server.wait_for_requests(1)
        server.stop()
        server.wait_until(lambda: server.server._server.should_exit)
        server.release()
        assert [client.answer().said() for _ in range(2)] == ["wait", "behind"]
        assert client.rest() == b""
        assert not server.errors
