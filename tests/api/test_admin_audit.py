"""Administrators' calls are written down; and every answer has its request's id."""

import json

import pytest

from radixway.api.admin_access import BY, NOBODY, AdminAuditMiddleware
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

KEY = {"authorization": "Bearer the-admin-key"}


def written(directory):
    """The entries of an audit log about administrators' calls."""
    lines = [line for file in sorted(directory.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [entry for entry in map(json.loads, lines) if entry.get("kind") == "admin_call"]


async def test_who_called_what_when_and_what_became_of_it(tmp_path):
    guard = {"audit": {"enabled": True, "path": str(tmp_path)}}
    async with scripted_worker() as worker:
        async with running_gateway(
            worker.url, gateway={"admin_key": "the-admin-key"}, guard=guard
        ) as gateway:
            other = "http://127.0.0.1:9"
            await gateway.post(f"/add_worker?url={other}", {}, headers=KEY | {"x-request-id": "one"})
            await gateway.post(f"/remove_worker?url={other}", {})
            status, _, _ = await gateway.post("/remove_worker?url=a%20forged%0Aline", {}, headers=KEY)
            assert status >= 400
            await gateway.post("/add_worker?url=http://me:pass%40word@10.0.0.9:1", {}, headers=KEY)
            await gateway.get("/list_workers", headers=KEY)  # reading is no deed
            await gateway.chat()  # nor is this an administrator's
            await gateway.gateway.audit.log.flush_entries()
        added, refused, failed, secret = written(tmp_path)
    assert (added["path"], added["target"], added["by"]) == ("/add_worker", other, "admin_key")
    assert (added["status"], added["request"], added["method"]) == (200, "one", "POST")
    assert added["address"] == "127.0.0.1" and added["time"]
    assert (refused["by"], refused["status"], refused["target"]) == (NOBODY, 401, other)
    assert failed["target"].startswith("sha256:") and failed["status"] == status
    assert (secret["target"], secret["status"]) == ("10.0.0.9:1", 400)


async def test_every_answer_has_an_id_whatever_it_is():
    async with running_gateway(wait=False) as gateway:
        for path, method in (
            ("/health", "GET"),
            ("/nowhere", "GET"),
            ("/v1/models/x", "GET"),
            ("/flush_cache", "PUT"),
        ):
            for given in ("mine", "no\u00e9t"):
                async with gateway.client.request(
                    method, gateway.url + path, headers={"x-request-id": given}
                ) as response:
                    ids = response.headers.getall("x-request-id")
                assert len(ids) == 1 and (ids[0] == given) == (given == "mine"), (path, ids)


class Notes:
    def __init__(self):
        self.told = []

    def record_event(self, kind, **fields):
        self.told.append(fields)


@pytest.fixture
def call():
    """A refused call at a time of the test's own, and what was written of all."""
    notes, now = Notes(), [100.0]

    async def refuses(scope, receive, send):
        scope[BY] = NOBODY
        await send({"type": "http.response.start", "status": 401, "headers": []})

    rim = AdminAuditMiddleware(refuses, notes, lambda: now[0])

    async def call(at):
        now[0] = at

        async def send(message):
            assert message["headers"]

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/p",
            "query_string": b"",
            "headers": [],
            "client": None,
        }
        await rim(scope, None, send)
        return notes.told

    return call


async def test_whoever_guesses_keys_does_not_fill_the_disk(call):
    for _ in range(1000):
        told = await call(200.0)
    assert len(told) == 20
    told = await call(300.0)
    assert len(told) == 21 and told[-1]["refused_before"] == 980
