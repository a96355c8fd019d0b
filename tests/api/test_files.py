"""`/v1/files` and `/v1/batches` belong to the worker that took them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from radixway.routing import WorkerState
from support.file_worker import FILE_PATHS, FileWorker, lines
from support.guarded import ATTACK, guarded
from support.running_gateway import RunningGateway, running_gateway
from support.surface_worker import surface_worker


@asynccontextmanager
async def two_file_workers(**more: Any) -> AsyncIterator[tuple[FileWorker, FileWorker]]:
    clock = [0]
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(
                surface_worker(*FILE_PATHS, kind=FileWorker, models=[model], mark=mark, clock=clock)
            )
            for mark, model in (("a", "m"), ("b", "n"))
        ]
        yield made[0], made[1]


def sdk(gateway: RunningGateway, key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)


async def test_the_openai_client_keeps_files_and_runs_batches_at_the_worker_of_their_model() -> None:
    async with two_file_workers() as (one, two), running_gateway(one.url, two.url) as gateway:
        client = sdk(gateway)
        made = await client.files.create(file=("b.jsonl", lines("n")), purpose="batch")
        assert (made.id, list(two.files), one.files) == ("file-b0", ["file-b0"], {})
        batch = await client.batches.create(
            input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        assert batch.id == "batch_b0" and one.batches == {}
        assert (await client.batches.retrieve(batch.id)).status == "completed"
        assert batch.output_file_id is not None
        assert (await client.files.content(batch.output_file_id)).content == b'{"custom_id": "1"}\n'
        assert (await client.files.retrieve(made.id)).bytes == len(lines("n"))
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        assert (await client.files.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(made.id)


async def test_lists_are_those_of_all_workers_the_newest_first() -> None:
    async with two_file_workers() as (one, two), running_gateway(one.url, two.url) as gateway:
        client = sdk(gateway)
        for model in ("m", "n", "m", "n"):
            await client.files.create(file=("x.jsonl", lines(model)), purpose="batch")
        await client.files.create(file=("x.bin", b"\xff"), purpose="vision", extra_body={})
        ids = [file.id async for file in client.files.list(purpose="batch")]
        assert ids == ["file-b1", "file-a1", "file-b0", "file-a0"]
        status, page = await gateway.get("/v1/files?purpose=batch&limit=2&order=asc")
        assert [row["id"] for row in page["data"]] == ["file-a0", "file-b0"]
        assert (status, page["last_id"], page["has_more"]) == (200, "file-b0", True)
        status, page = await gateway.get("/v1/files?purpose=batch&limit=2&order=asc&after=file-b0")
        assert ([row["id"] for row in page["data"]], page["has_more"]) == (["file-a1", "file-b1"], False)
        assert len((await gateway.get("/v1/batches"))[1]["data"]) == 0


async def test_another_gateway_finds_what_the_first_one_kept() -> None:
    async with two_file_workers() as (one, two), running_gateway(one.url, two.url) as first:
        made = await sdk(first).files.create(file=("b.jsonl", lines("n")), purpose="batch")
        async with running_gateway(one.url, two.url) as second:
            client = sdk(second)
            assert (await client.files.content(made.id)).content == lines("n")
            batch = await client.batches.create(
                input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            assert batch.id == "batch_b0"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "param"),
    [
        ("GET", "/v1/files/file-none", None, 404, "file_id"),
        ("DELETE", "/v1/files/file-none", None, 404, "file_id"),
        ("GET", "/v1/files/..%2Fbatches/content", None, 404, None),
        ("GET", "/v1/batches/none", None, 404, "batch_id"),
        ("POST", "/v1/batches/none/cancel", None, 404, "batch_id"),
        ("POST", "/v1/batches", {"input_file_id": "none", "endpoint": "/x"}, 404, "input_file_id"),
        ("POST", "/v1/batches", {"endpoint": "/x"}, 400, "input_file_id"),
        ("POST", "/v1/batches", {"input_file_id": "", "endpoint": "/x"}, 400, "input_file_id"),
        ("GET", "/v1/files?limit=0", None, 400, "limit"),
        ("GET", "/v1/files?order=up", None, 400, "order"),
        ("GET", "/v1/files?after=none", None, 404, "after"),
    ],
)
async def test_what_is_not_there_or_makes_no_sense_is_named(method, path, body, status, param) -> None:
    async with two_file_workers() as (one, two), running_gateway(one.url, two.url) as gateway:
        async with gateway.client.request(method, gateway.url + path, json=body) as answer:
            told = await answer.json()
            assert answer.status == status, told
            if param is not None:
                assert told["error"]["param"] == param


async def test_rows_that_make_no_sense_are_listed_behind_the_others() -> None:
    stamps = [3, 10**400, "now", None, 2.5, -(10**400)]
    rows = [{"id": str(at), "created_at": stamp} for at, stamp in enumerate(stamps)]
    async with surface_worker("/v1/files") as worker, running_gateway(worker.url) as gateway:
        worker.answers["/v1/files"] = lambda request, body: web.json_response({"data": rows})
        status, told = await gateway.get("/v1/files")
        assert (status, [row["id"] for row in told["data"]]) == (200, ["1", "0", "4", "2", "3", "5"])


async def test_where_no_worker_keeps_files_there_are_none() -> None:
    async with surface_worker("/v1/chat/completions") as worker, running_gateway(worker.url) as gateway:
        assert (await gateway.get("/v1/files"))[0] == 404
        assert (await gateway.get("/v1/files/x"))[0] == 404


async def test_a_worker_that_is_away_is_named() -> None:
    async with two_file_workers() as (one, two), running_gateway(one.url, two.url) as gateway:
        made = await sdk(gateway).files.create(file=("b.jsonl", lines("n")), purpose="batch")
        worker = gateway.gateway.registry.get_worker(two.url)
        gateway.gateway.registry.set_state(worker, WorkerState.DOWN)
        body = {"input_file_id": made.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        assert (await gateway.post("/v1/batches", body))[0] == 503


async def test_a_tenant_sees_its_own_files_alone() -> None:
    tenants = {
        "acme": {"keys": [{"key": "acme-key"}], "models": ["m"]},
        "rival": {"keys": [{"key": "rival-key"}]},
    }
    async with (
        two_file_workers() as (one, two),
        running_gateway(one.url, two.url, tenants=tenants) as gateway,
    ):
        acme, rival = sdk(gateway, "acme-key"), sdk(gateway, "rival-key")
        made = await acme.files.create(file=("a.jsonl", lines("m")), purpose="batch")
        batch = await acme.batches.create(
            input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        assert batch.output_file_id is not None
        assert (await acme.files.content(batch.output_file_id)).content == b'{"custom_id": "1"}\n'
        for call in (
            rival.files.retrieve(made.id),
            rival.files.content(made.id),
            rival.files.delete(made.id),
            rival.batches.retrieve(batch.id),
            rival.batches.create(
                input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
            ),
            acme.files.create(file=("a.jsonl", lines("n")), purpose="batch"),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert [file.id async for file in rival.files.list()] == []
        assert [file.id async for file in acme.files.list()] == [batch.output_file_id, made.id]
        with pytest.raises(openai.AuthenticationError):
            await sdk(gateway, "unknown").files.list()


async def test_a_file_that_is_deleted_or_gone_is_nobodys() -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key"}]}}
    async with (
        two_file_workers() as (one, two),
        running_gateway(one.url, two.url, tenants=tenants) as gateway,
    ):
        client, owners = sdk(gateway, "acme-key"), gateway.gateway.files.owners
        made = [await client.files.create(file=("a.jsonl", lines("m")), purpose="batch") for _ in range(2)]
        batch = await client.batches.create(
            input_file_id=made[0].id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        ids = {made[0].id, made[1].id, batch.id, batch.output_file_id}
        assert await owners.list_files("acme") == ids
        await client.files.delete(made[0].id)
        assert await owners.list_files("acme") == ids - {made[0].id}
        one.files.clear()
        one.batches.clear()
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(made[1].id)
        with pytest.raises(openai.NotFoundError):
            await client.batches.retrieve(batch.id)
        assert await owners.list_files("acme") == {batch.output_file_id}


async def test_a_file_is_made_though_the_store_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "files.sqlite").mkdir()
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    tenants = {"acme": {"keys": [{"key": "acme-key"}]}}
    async with (
        two_file_workers() as (one, two),
        running_gateway(one.url, two.url, tenants=tenants) as gateway,
    ):
        made = await sdk(gateway, "acme-key").files.create(file=("a.jsonl", lines("m")), purpose="batch")
        assert list(one.files) == [made.id]


async def test_the_guard_reads_the_lines_of_a_file(monkeypatch) -> None:
    blocks = {"jailbreak": {"action": "block"}}
    async with surface_worker(*FILE_PATHS, kind=FileWorker) as worker:
        async with guarded(monkeypatch, worker.url, guard=blocks) as gateway:
            client = sdk(gateway)
            with pytest.raises(openai.PermissionDeniedError):
                await client.files.create(file=("a.jsonl", lines("m", ATTACK)), purpose="batch")
            assert worker.files == {}
            await client.files.create(file=("a.jsonl", lines("m")), purpose="batch")
            assert worker.contents == {"file-a0": lines("m")}
            with pytest.raises(openai.BadRequestError) as refused:
                await client.files.create(file=("a.bin", b"\xff"), purpose="batch")
            assert refused.value.param == "file"


async def test_a_list_of_owners_that_cannot_be_read_is_told() -> None:
    tenants = {"a": {"keys": [{"key": "key-of-a"}]}}
    async with two_file_workers() as (one, _), running_gateway(one.url, tenants=tenants) as gateway:
        client = sdk(gateway, "key-of-a")
        gateway.gateway.files.owners._path.write_text("no database")
        for call in (client.files.list(), client.files.retrieve("file-1"), client.batches.list()):
            with pytest.raises(openai.InternalServerError) as raised:
                await call
            assert (raised.value.status_code, raised.value.code) == (503, "files_unavailable")
