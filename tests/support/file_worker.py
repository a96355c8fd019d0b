"""A worker that keeps files and batches, as OpenAI's server does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.surface_worker import SurfaceWorker, form_of

FILE_PATHS = (
    "/v1/files",
    "/v1/files/{file_id}",
    "/v1/files/{file_id}/content",
    "/v1/batches",
    "/v1/batches/{batch_id}",
    "/v1/batches/{batch_id}/cancel",
)
_LINE = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions"}


def lines(model: str, text: str = "hello") -> bytes:
    """The file of a batch that asks `model` twice."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return json.dumps(_LINE | {"body": body}).encode() + b"\n" + json.dumps(_LINE | {"body": body}).encode()


@dataclass
class FileWorker(SurfaceWorker):
    """Keeps what it is given; a batch is complete at once."""

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
