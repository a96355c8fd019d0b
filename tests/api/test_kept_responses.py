"""Responses that workers keep, where the gateway keeps none: found at their worker and gone on from."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from radixway.api.worker_files import FileOwnerStore
from radixway.core.config import radixway_home
from support.running_gateway import RunningGateway, running_gateway
from support.surface_worker import SurfaceWorker, surface_worker

PATH = "/v1/responses"
COUNT = PATH + "/input_tokens"
OFFERED = (PATH, COUNT, PATH + "/{response_id}", PATH + "/{response_id}/cancel")
NO_CHATS = {"chat": {"enabled": False}}
TENANTS = {"a": {"keys": [{"key": "key-of-a"}]}, "b": {"keys": [{"key": "key-of-b"}]}}


@dataclass
class KeepingWorker(SurfaceWorker):
    """Keeps responses as vLLM does: in its own memory."""

    mark: str = "a"
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: int = 0
    keeps: bool = True
    """False: as vLLM without a store, whose responses say so."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set as a response is asked for."""
    may_end: asyncio.Event | None = None
    """Streamed responses wait for it, and are kept only then."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts[:2] != ["v1", "responses"]:
            return await super().serve(request)
        await request.read()
        await super().serve(request)  # keeps what came
        if request.path == COUNT:
            known = self.seen[-1].json()["previous_response_id"] in self.kept
            return web.json_response({"object": "response.input_tokens", "input_tokens": 7 if known else 0})
        if len(parts) == 2:
            return await self._make(request, self.seen[-1].json())
        if parts[2] not in self.kept:
            return web.json_response({"error": {"message": "no such response"}}, status=404)
        if request.method == "DELETE":
            return web.json_response(self.kept.pop(parts[2]) | {"deleted": True})
        if parts[-1] == "cancel":
            self.kept[parts[2]]["status"] = "cancelled"
        return web.json_response(self.kept[parts[2]])

    async def _make(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        self.asked.set()
        previous = asked.get("previous_response_id")
        if previous is not None and previous not in self.kept:
            return web.json_response({"error": {"message": "no such response"}}, status=404)
        self.made += 1
        made = {"id": f"resp_{self.mark}{self.made}", "object": "response", "status": "completed"}
        if not self.keeps:
            made["store"] = False
        elif asked.get("store") is not False:
            self.kept[made["id"]] = made
        if not asked.get("stream"):
            return web.json_response(made)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for kind in ("response.created", "response.completed"):
            if kind == "response.completed" and self.may_end is not None:
                del self.kept[made["id"]]
                await self.may_end.wait()
                self.kept[made["id"]] = made
            data = json.dumps({"type": kind, "sequence_number": 0, "response": made})
            await response.write(f"event: {kind}\ndata: {data}\n\n".encode())
        return response


@asynccontextmanager
async def keeping(**sections: Any) -> AsyncIterator[tuple[list[KeepingWorker], RunningGateway]]:
    """Two workers that keep responses, and a gateway that takes them in turn and keeps none."""
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(surface_worker(*OFFERED, kind=KeepingWorker, mark=mark))
            for mark in "ab"
        ]
        routing = {"policy": {"name": "round_robin"}}
        urls = [worker.url for worker in workers]
        gateway = running_gateway(*urls, **NO_CHATS, routing=routing, **sections)
        yield workers, await stack.enter_async_context(gateway)


async def ask(gateway: RunningGateway, **fields: Any) -> dict[str, Any]:
    status, told, _ = await gateway.post(PATH, {"model": "m", "input": "hello"} | fields)
    return told | {"status_code": status}


def client_of(gateway: RunningGateway, key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)


async def test_a_response_is_shown_cancelled_and_deleted_at_its_worker() -> None:
    async with keeping() as (workers, gateway):
        client = client_of(gateway)
        for _ in range(4):
            made = await client.responses.create(model="m", input="hello")
            assert (await client.responses.retrieve(made.id)).id == made.id
            assert (await client.responses.cancel(made.id)).status == "cancelled"
            await client.responses.delete(made.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(made.id)
        assert [worker.made for worker in workers] == [2, 2]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_goes_on_from_a_response_goes_to_its_worker(stream: bool) -> None:
    async with keeping() as (workers, gateway):
        client = client_of(gateway)
        for _ in range(2):
            if stream:
                events = await client.responses.create(model="m", input="hello", stream=True)
                first = [event async for event in events][-1].response.id
            else:
                first = (await client.responses.create(model="m", input="hello")).id
            assert not any(call[0] == "GET" for worker in workers for call in worker.calls), "it is known"
            for _ in range(3):
                told = await ask(gateway, previous_response_id=first)
                assert (told["status_code"], told["id"][:6]) == (200, first[:6])
                counted = await client.responses.input_tokens.count(
                    model="m", input="on", previous_response_id=first
                )
                assert counted.input_tokens == 7


async def test_a_gateway_that_did_not_pass_it_on_finds_it() -> None:
    async with keeping() as (workers, gateway):
        workers[1].kept["resp_old"] = {"id": "resp_old", "object": "response", "status": "completed"}
        assert (await gateway.get(f"{PATH}/resp_old"))[0] == 200
        assert (await ask(gateway, previous_response_id="resp_old"))["id"].startswith("resp_b")


async def test_what_no_worker_keeps_is_refused_by_the_field() -> None:
    async with keeping() as (workers, gateway):
        status, told = await gateway.get(f"{PATH}/resp_x")
        assert (status, told["error"]["param"]) == (404, "response_id")
        told = await ask(gateway, previous_response_id="resp_x")
        assert told["status_code"] == 400 and not any(worker.made for worker in workers)
        error = told["error"]
        assert (error["param"], error["code"]) == ("previous_response_id", "previous_response_not_found")
        told = await ask(gateway, store=False)
        assert (await gateway.get(f"{PATH}/{told['id']}"))[0] == 404


async def test_a_tenant_is_shown_its_own_responses_alone() -> None:
    tenants = {"a": {"keys": [{"key": "key-of-a"}]}, "b": {"keys": [{"key": "key-of-b"}]}}
    async with keeping(tenants=tenants) as (_, gateway):
        own, other = client_of(gateway, "key-of-a"), client_of(gateway, "key-of-b")
        made = await own.responses.create(model="m", input="hello")
        assert (await own.responses.retrieve(made.id)).id == made.id
        assert (await own.responses.create(model="m", input="on", previous_response_id=made.id)).id
        with pytest.raises(openai.NotFoundError):
            await other.responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError):
            await other.responses.create(model="m", input="on", previous_response_id=made.id)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_its_worker_does_not_keep_is_nobodys(stream: bool) -> None:
    tenants = {"a": {"keys": [{"key": "key-of-a"}]}}
    async with keeping(tenants=tenants) as (workers, gateway):
        for worker in workers:
            worker.keeps = False
        client = client_of(gateway, "key-of-a")
        if stream:
            events = await client.responses.create(model="m", input="hello", stream=True)
            made = [event async for event in events][-1].response
        else:
            made = await client.responses.create(model="m", input="hello")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)
        assert not any(call[0] == "GET" for worker in workers for call in worker.calls), "it is not noted"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_passed_on_though_it_cannot_be_noted(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(FileOwnerStore, "add_file", fail)
    tenants = {"a": {"keys": [{"key": "key-of-a"}]}}
    async with keeping(tenants=tenants) as (_, gateway):
        client = client_of(gateway, "key-of-a")
        if stream:
            events = await client.responses.create(model="m", input="hello", stream=True)
            assert [event async for event in events][-1].type == "response.completed"
        else:
            assert (await client.responses.create(model="m", input="hello")).id


async def ask_whole(client: openai.AsyncOpenAI, stream: bool) -> str:
    """The id of a response to "wait", once it has come to its end."""
    if not stream:
        return (await client.responses.create(model="m", input="wait")).id
    events = await client.responses.create(model="m", input="wait", stream=True)
    return [event async for event in events][-1].response.id


async def is_noted(gateway: RunningGateway, response_id: str, tenant: str = "a") -> bool:
    return await gateway.gateway.files.owners.find_worker(tenant, response_id) is not None


async def test_a_response_that_is_deleted_or_gone_is_nobodys() -> None:
    async with keeping(tenants=TENANTS) as (workers, gateway):
        own, other = client_of(gateway, "key-of-a"), client_of(gateway, "key-of-b")
        made = [await own.responses.create(model="m", input="hello") for _ in range(3)]
        with pytest.raises(openai.NotFoundError):
            await other.responses.delete(made[0].id)
        assert await is_noted(gateway, made[0].id)
        await own.responses.delete(made[0].id)
        assert not await is_noted(gateway, made[0].id)
        for worker in workers:
            worker.kept.clear()  # restarted
        with pytest.raises(openai.NotFoundError):
            await own.responses.retrieve(made[1].id)
        with pytest.raises(openai.NotFoundError):
            await own.responses.delete(made[2].id)
        calls = sum(len(worker.calls) for worker in workers)
        for each in made[1:]:
            assert not await is_noted(gateway, each.id)
            with pytest.raises(openai.NotFoundError):
                await own.responses.retrieve(each.id)
        assert calls == sum(len(worker.calls) for worker in workers), "no worker is asked again"


@pytest.mark.parametrize("path", [PATH + "/{}/input_items", PATH + "/{}/cancel", "/v1/files/{}"])
async def test_a_path_that_its_worker_lacks_leaves_a_response_its_tenants(path: str) -> None:
    async with keeping(tenants=TENANTS) as (workers, gateway):
        made = await client_of(gateway, "key-of-a").responses.create(model="m", input="hello")
        for worker in workers:
            worker.kept.clear()
        method = "POST" if path.endswith("cancel") else "GET"
        headers = {"authorization": "Bearer key-of-a"}
        url = gateway.url + path.format(made.id)
        async with gateway.client.request(method, url, headers=headers) as answer:
            assert answer.status == 404
        assert await is_noted(gateway, made.id)


async def test_a_worker_that_shows_no_responses_may_go_on_from_them() -> None:
    async with surface_worker(PATH, kind=KeepingWorker) as worker:
        async with running_gateway(worker.url, **NO_CHATS, tenants=TENANTS) as gateway:
            client = client_of(gateway, "key-of-a")
            made = await client.responses.create(model="m", input="hello")
            kept = worker.kept.copy()
            worker.kept.clear()  # its 404 is that of an unknown path
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(made.id)
            worker.kept.update(kept)
            assert (await client.responses.create(model="m", input="on", previous_response_id=made.id)).id


async def test_a_response_asked_for_while_it_is_streamed_is_still_found_at_its_end() -> None:
    async with keeping(tenants=TENANTS) as (workers, gateway):
        may_end = asyncio.Event()
        for worker in workers:
            worker.may_end = may_end
        client = client_of(gateway, "key-of-a")
        events = await client.responses.create(model="m", input="hello", stream=True)
        made = (await anext(events)).response
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)
        may_end.set()
        assert [event.type async for event in events] == ["response.completed"]
        assert (await client.responses.retrieve(made.id)).id == made.id


@pytest.mark.parametrize("stream", [False, True])
async def test_other_requests_go_on_while_a_response_waits_to_be_noted(stream: bool) -> None:
    async with keeping(tenants=TENANTS) as (workers, gateway):
        client = client_of(gateway, "key-of-a")
        await client.responses.create(model="m", input="hello")
        asked = asyncio.Event()
        for worker in workers:
            worker.asked = asked
        file = radixway_home() / "files.sqlite"
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            asking = asyncio.create_task(ask_whole(client, stream))
            await asked.wait()
            assert (await gateway.get("/health"))[0] == 200
            assert not asking.done(), "it can be asked for once it is passed on"
            db.execute("COMMIT")
        assert await is_noted(gateway, await asking)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_store_that_cannot_be_opened_fails_no_answer(
    stream: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "files.sqlite").mkdir()
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with keeping(tenants=TENANTS) as (_, gateway):
        made = await ask_whole(client_of(gateway, "key-of-a"), stream)
        told = [each.getMessage() for each in caplog.records if "owner of a response" in each.getMessage()]
        assert told and made not in "".join(told)


async def test_where_no_worker_has_responses_it_says_that_chats_are_off() -> None:
    async with surface_worker("/v1/chat/completions") as worker:
        async with running_gateway(worker.url, **NO_CHATS) as gateway:
            status, told = await gateway.get(f"{PATH}/resp_x")
            assert (status, told["error"]["code"]) == (404, "chats_disabled")
