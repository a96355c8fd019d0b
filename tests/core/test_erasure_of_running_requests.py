"""`POST /admin/erase` while requests of its subject are under way: they end as usual and leave nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from radixway.core.component import Subject
from radixway.core.pipeline import ENDPOINTS, InFlightRequests, Request
from radixway.core.pipeline.contexts import Caller
from radixway.core.telemetry import Journal, JournalStore
from support.engine_process import engine_process
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, scripted_worker

ADMIN = {"authorization": "Bearer the-admins-own-key"}
KEYS = {"alice": "a-key-of-alice-alone", "bob": "a-key-of-bob-alone"}
QUESTION = "法国的首都是哪里，{}？"
TENANCY = {
    "gateway": {"admin_key": "the-admins-own-key"},
    "tenants": {"acme": {"keys": [{"key": key, "user": user} for user, key in KEYS.items()]}},
    "chat": {"enabled": False},
}
EVERYTHING = TENANCY | {
    "semantic_cache": {"enabled": True},
    "encoders": {"backend": "numpy"},
    "trajectories": {"enabled": True},
}
CHAT, GENERATE = "/v1/chat/completions", "/generate"
SUBJECTS = {
    "user": {"tenant": "acme", "user": "alice"},
    "request": {"tenant": "acme", "request": "chat-of-alice"},
    "tenant": {"tenant": "acme", "all": True},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


class HeldRelay:
    """Passes bytes between a gateway and an engine; of held streams only the first event, until `release`."""

    def __init__(self, engine: str) -> None:
        self._address = urlsplit(engine)
        self.url = ""
        self.held = 0
        self.release = asyncio.Event()
        self._changed = asyncio.Event()

    async def wait_held(self, count: int) -> None:
        """Wait until `count` streams are held."""
        async with asyncio.timeout(30):
            while self.held < count:
                self._changed.clear()
                await self._changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._address.hostname, self._address.port)
        asking = asyncio.create_task(_pass_on(reader, forth))
        try:
            while data := await back.read(2**16):
                end = data.find(b"\n\n", data.find(b"data: ")) if b"data: " in data else -1
                if end >= 0 and not self.release.is_set():
                    writer.write(data[: end + 2])
                    data = data[end + 2 :]
                    self.held += 1
                    self._changed.set()
                    await self.release.wait()
                writer.write(data)
        finally:
            asking.cancel()
            writer.close()
            forth.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)


@asynccontextmanager
async def held_relay(engine: str) -> AsyncIterator[HeldRelay]:
    relay = HeldRelay(engine)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    relay.url = f"http://{host}:{port}"
    try:
        yield relay
    finally:
        server.close()


def body_of(user: str, path: str) -> dict[str, Any]:
    question = QUESTION.format(user)
    if path == GENERATE:
        return {"text": question, "stream": True, "sampling_params": {"max_new_tokens": 4}}
    messages = [{"role": "user", "content": question}]
    fields = {"model": "radixway-guide", "max_tokens": 300, "temperature": 0, "stream": True}
    return fields | {"messages": messages}


async def read_stream(gateway: RunningGateway, user: str, path: str, name: str) -> bytes:
    """Ask as `user`, in a request of the id `name`; the whole stream."""
    headers = {"authorization": f"Bearer {KEYS[user]}", "x-request-id": name}
    url = gateway.url + path
    async with gateway.client.post(url, json=body_of(user, path), headers=headers) as response:
        assert response.status == 200
        assert response.headers["x-request-id"] == name
        return await response.read()


async def what_there_is(gateway: RunningGateway, user: str) -> set[str]:
    """Which of the two requests of `user` left something, and where."""
    assert gateway.gateway.cache is not None and gateway.gateway.recorder is not None
    await gateway.gateway.cache.middleware.wait_for_writes()
    there = {"semantic_cache"} if any(entry.user == user for entry in gateway.gateway.cache.memory) else set()
    for path in ("chat", "generate"):
        if (await gateway.get(f"/explain/{path}-of-{user}", headers=ADMIN))[0] == 200:
            there.add(f"journal of {path}")
    trie = await gateway.gateway.recorder.tries.trie_for("radixway-guide")
    question = QUESTION.format(user)
    if trie.store.match_prefix(question).text == len(question.encode()):
        there.add("trajectories")
    return there


ALL = {"semantic_cache", "journal of chat", "journal of generate", "trajectories"}


@pytest.mark.parametrize("name", SUBJECTS)
async def test_streams_that_end_after_the_erasure_leave_nothing_of_its_subject(
    engine: str, name: str
) -> None:
    async with held_relay(engine) as relay, running_gateway(relay.url, **EVERYTHING) as gateway:
        streams = [
            asyncio.create_task(read_stream(gateway, user, path, f"{kind}-of-{user}"))
            for user in KEYS
            for kind, path in (("chat", CHAT), ("generate", GENERATE))
        ]
        await relay.wait_held(len(streams))
        status, told, _ = await gateway.post("/admin/erase", SUBJECTS[name], headers=ADMIN)
        assert status == 200 and told["complete"]
        relay.release.set()
        for stream in await asyncio.gather(*streams):
            assert stream.endswith(b"data: [DONE]\n\n"), "it ends as it would"
        left = {"user": set(), "request": ALL - {"semantic_cache", "journal of chat"}, "tenant": set()}[name]
        assert await what_there_is(gateway, "alice") == left
        assert await what_there_is(gateway, "bob") == (set() if name == "tenant" else ALL)


async def test_requests_that_begin_after_the_erasure_are_stored_again(engine: str) -> None:
    async with running_gateway(engine, **EVERYTHING) as gateway:
        await gateway.post("/admin/erase", SUBJECTS["user"], headers=ADMIN)
        await read_stream(gateway, "alice", CHAT, "chat-of-alice")
        await read_stream(gateway, "alice", GENERATE, "generate-of-alice")
        assert await what_there_is(gateway, "alice") == ALL


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"user": "alice"}, 409),
        ({"user": "bob"}, 200),
    ],
)
async def test_a_request_whose_body_ends_after_the_erasure_is_refused(
    body: dict[str, str], status: int
) -> None:
    """The user is the body's: nothing is known of them when they are erased."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **body}
    raw = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\nx-request-id: late\r\ncontent-length: {len(raw)}\r\n\r\n"
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        address = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + raw[:20])
        async with asyncio.timeout(10):
            while not len(gateway.gateway.in_hand):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await gateway.post("/admin/erase", {"tenant": "default", "user": "alice"})
        writer.write(raw[20:])
        line = await reader.readline()
        writer.close()
        assert int(line.split(b" ")[1]) == status
        assert len(worker.requests) == (status == 200)
        assert (await gateway.get("/explain/late"))[0] == (200 if status == 200 else 404)


@pytest.mark.parametrize("user", KEYS)
@pytest.mark.parametrize("path", [CHAT, "/sessions/s1/v1/chat/completions"])
async def test_users_are_known_by_their_keys_when_their_bodies_end_after_the_erasure(
    user: str, path: str
) -> None:
    raw = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}], "user": "else"}'
    head = (
        f"POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEYS[user]}\r\n"
        f"content-length: {len(raw)}\r\n\r\n"
    )
    async with scripted_worker() as worker, running_gateway(worker.url, **TENANCY) as gateway:
        address = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + raw[:20])
        async with asyncio.timeout(10):
            while not len(gateway.gateway.in_hand):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await gateway.post("/admin/erase", SUBJECTS["user"], headers=ADMIN)
        writer.write(raw[20:])
        line = await reader.readline()
        writer.close()
        assert (b" 409 " in line) == (user == "alice")
        assert bool(worker.requests) == (user == "bob" and path == CHAT)
        sessions = await gateway.get("/sessions", headers=ADMIN)
        assert not (user == "alice" and "s1" in json.dumps(sessions[1]))


async def test_a_request_that_waits_for_a_worker_leaves_no_text_with_the_policy() -> None:
    release = asyncio.Event()
    first_came = asyncio.Event()

    async def answer_later(exchange: Exchange) -> None:
        first_came.set()
        await release.wait()
        await exchange.reply(200, b'{"choices": []}')

    routing = {"policy": "prefix_affinity", "max_in_flight_per_worker": 1}
    async with (
        scripted_worker(answer_later) as worker,
        scripted_worker(answer_later) as other,
        running_gateway(worker.url, other.url, routing=routing) as gateway,
    ):
        asked = [asyncio.create_task(gateway.chat(user=user)) for user in ("bob", "bob", "alice")]
        async with asyncio.timeout(10):
            while len(gateway.gateway.in_hand) < 3 or gateway.in_flight() < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await gateway.post("/admin/erase", {"tenant": "default", "user": "alice"})
        release.set()
        assert [status for status, _, _ in await asyncio.gather(*asked)] == [200] * 3
        assert gateway.gateway.selector.clear_texts() == 0


def test_an_erased_request_has_no_user_any_more() -> None:
    """The guard would give the user a pseudonym again for what it finds in the answer."""
    in_hand, journal = InFlightRequests(), Journal("r", tenant="acme", user="alice")
    request = Request(id="r", endpoint=ENDPOINTS["generate"], path="/", journal=journal)
    request.caller = Caller(tenant="acme", user="alice")
    in_hand.add_request(request)
    in_hand.mark_erased(Subject("acme", "bob"))
    in_hand.mark_erased(Subject("other", "alice"))
    in_hand.mark_erased(Subject("acme", "alice", session="s"))
    assert request.user_or_claimed == "alice" and not journal.is_erased
    journal.session = "s"
    assert request.user_or_claimed is None and journal.is_erased
    store = JournalStore(10)
    store.save_journal(journal)
    assert len(store) == 0
    in_hand.remove_request(request)
    later = Journal("r", tenant="acme", user="alice", session="s")
    store.save_journal(later)
    assert len(store) == 1
