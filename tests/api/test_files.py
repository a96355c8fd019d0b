"""`/v1/files` and `/v1/batches` belong to the worker that took them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from aiohttp import web

from radixway.routing import WorkerState
from support.guarded import ATTACK, guarded
from support.running_gateway import RunningGateway, running_gateway
from support.surface_worker import SurfaceWorker, form_of, surface_worker

PATHS = (
    "/v1/files",
    "/v1/files/{file_id}",
    "/v1/files/{file_id}/content",
    "/v1/batches",
    "/v1/batches/{batch_id}",
    "/v1/batches/{batch_id}/cancel",
)
LINE = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions"}


def lines(model: str, text: str = "hello") -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return json.dumps(LINE | {"body": body}).encode() + b"\n" + json.dumps(LINE | {"body": body}).encode()


@dataclass
class FileWorker(SurfaceWorker):
    """Keeps files and batches as OpenAI's server does."""

    mark: str = "a"
    clock: list[int] = field(default_factory=lambda: [0])
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    page_rows: int = 1

    async def serve(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts[:2] not in (["v1", "files"], ["v1", "batches"]):
            return await super().serve(request)
        await request.read()
        await super().serve(request)  # keeps what came
        kept = self.files if parts[1] == "files" else self.batches
        if len(parts) == 2:
            if request.method == "GET":
                return self._page(request, list(kept.values()))
            return web.json_response(self._keep_file() if parts[1] == "files" else self._keep_batch())
        if parts[2] not in kept:
            return web.json_response({"error": {"message": "no such thing"}}, status=404)
        if parts[-1] == "content":
            return web.Response(body=self.contents[parts[2]], content_type="application/octet-stream")
        if request.method == "DELETE":
            del kept[parts[2]]
            return web.json_response({"id": parts[2], "object": "file", "deleted": True})
        if parts[-1] == "cancel":
            kept[parts[2]]["status"] = "cancelling"
        return web.json_response(kept[parts[2]])

    def _stamp(self) -> int:
        self.clock[0] += 1
        return self.clock[0]

    def _keep_file(self) -> dict[str, Any]:
        form = form_of(self.seen[-1])
        file_id = f"file-{self.mark}{len(self.contents)}"
        self.contents[file_id] = form["file"][0]
        self.files[file_id] = {
            "id": file_id,
            "object": "file",
            "bytes": len(form["file"][0]),
            "created_at": self._stamp(),
            "filename": "a.jsonl",
            "purpose": form["purpose"][0].decode(),
            "status": "processed",
        }
        return self.files[file_id]

    def _keep_batch(self) -> dict[str, Any]:
        asked = self.seen[-1].json()
        batch_id = f"batch_{self.mark}{len(self.batches)}"
        output = f"file-{self.mark}-out"
        self.contents[output] = b'{"custom_id": "1"}\n'
        self.files[output] = {
            "id": output,
            "object": "file",
            "created_at": self._stamp(),
            "purpose": "batch_output",
        }
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "input_file_id": asked["input_file_id"],
            "completion_window": "24h",
            "status": "completed",
            "created_at": self._stamp(),
            "output_file_id": output,
        }
        return self.batches[batch_id]

    def _page(self, request: web.Request, rows: list[dict[str, Any]]) -> web.Response:
        rows = sorted(rows, key=lambda row: -row["created_at"])
        ids = [row["id"] for row in rows]
        if "after" in request.query:
            rows = rows[ids.index(request.query["after"]) + 1 :]
        if "purpose" in request.query:
            rows = [row for row in rows if row["purpose"] == request.query["purpose"]]
        page = rows[: self.page_rows]
        return web.json_response({"object": "list", "data": page, "has_more": len(rows) > len(page)})


@asynccontextmanager
async def two_file_workers(**more: Any) -> AsyncIterator[tuple[FileWorker, FileWorker]]:
    clock = [0]
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(
                surface_worker(*PATHS, kind=FileWorker, models=[model], mark=mark, clock=clock)
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


async def test_the_guard_reads_the_lines_of_a_file(monkeypatch) -> None:
    blocks = {"jailbreak": {"action": "block"}}
    async with surface_worker(*PATHS, kind=FileWorker) as worker:
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
