"""Reading, listing, cancelling and deleting files and batches. `POST /v1/files` and `/v1/batches` go the way
of declared endpoints."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta

from radixway.api.worker_files.forwarding import forward_to_holder
from radixway.api.worker_files.locations import FileNotFoundAtWorkersError, WorkerFiles
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import GatewayError, TenantPolicy
from radixway.core.pipeline.endpoints import BATCHES, FILES
from radixway.routing import Worker

_MAX_PAGES = 100
_PAGE_ROWS = 100
_DEFAULT_ROWS = {FILES.path: 10_000, BATCHES.path: 20}


class _ListQuery(msgspec.Struct):
    """The fields of a list's query that the gateway answers itself."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    order: Annotated[str, Meta(pattern="^(asc|desc)$")] = "desc"


class _Page(msgspec.Struct):
    """A page of a worker's list."""

    data: list[dict[str, Any]]
    has_more: bool | None = None


_page = msgspec.json.Decoder(_Page)


def file_routes(files: WorkerFiles, tenancy_of: Callable[[Request], TenantPolicy | None]) -> APIRouter:
    """Build the routes of what `files` finds. `tenancy_of`: a tenant is shown its own alone."""
    router = LazyRouter(tags=["files"])

    async def forward(request: Request, root: str, file_id: str, param: str) -> Response:
        return await forward_to_holder(files, request, root, file_id, param, tenancy_of(request))

    async def merge_lists(request: Request, root: str) -> dict[str, Any]:
        query = decode_query(dict(request.query_params), _ListQuery)
        others = {
            name: text
            for name, text in request.query_params.items()
            if name not in _ListQuery.__struct_fields__
        }
        tenancy = tenancy_of(request)
        workers = await files.list_workers(root, tenancy)
        lists = await asyncio.gather(*(_list_all(files, worker, root, others) for worker in workers))
        if all(each is None for each in lists):
            raise GatewayError(f"no worker has {root}", status=404, code="not_found")
        rows = {row["id"]: row for each in lists for row in each or () if isinstance(row.get("id"), str)}
        if tenancy is not None:
            own = await files.owners.list_files(tenancy.name)
            rows = {file_id: row for file_id, row in rows.items() if file_id in own}
        ordered = sorted(rows.values(), key=_created_at, reverse=query.order == "desc")
        return _cut_list(ordered, query, _DEFAULT_ROWS[root])

    @router.get(FILES.path)
    async def list_files(request: Request) -> dict[str, Any]:
        """List the files of all workers, the newest first."""
        return await merge_lists(request, FILES.path)

    @router.get(BATCHES.path)
    async def list_batches(request: Request) -> dict[str, Any]:
        """List the batches of all workers, the newest first."""
        return await merge_lists(request, BATCHES.path)

    @router.get(FILES.path + "/{file_id}")
    async def show_file(file_id: str, request: Request) -> Response:
        """Describe a file, as its worker does."""
        return await forward(request, FILES.path, file_id, "file_id")

    @router.delete(FILES.path + "/{file_id}")
    async def delete_file(file_id: str, request: Request) -> Response:
        """Delete a file at its worker."""
        return await forward(request, FILES.path, file_id, "file_id")

    @router.get(FILES.path + "/{file_id}/content")
    async def read_file(file_id: str, request: Request) -> Response:
        """Return the content of a file."""
        return await forward(request, FILES.path, file_id, "file_id")

    @router.get(BATCHES.path + "/{batch_id}")
    async def show_batch(batch_id: str, request: Request) -> Response:
        """Describe a batch, as its worker does."""
        return await forward(request, BATCHES.path, batch_id, "batch_id")

    @router.post(BATCHES.path + "/{batch_id}/cancel")
    async def cancel_batch(batch_id: str, request: Request) -> Response:
        """Cancel a batch at its worker."""
        return await forward(request, BATCHES.path, batch_id, "batch_id")

    return router


async def _list_all(
    files: WorkerFiles, worker: Worker, root: str, query: dict[str, str]
) -> list[dict[str, Any]] | None:
    """Return all rows of the worker's list, page by page; None where it has none, or does not answer."""
    rows: list[dict[str, Any]] = []
    for _ in range(_MAX_PAGES):
        after = {"after": str(rows[-1].get("id"))} if rows else {}
        reply = await files.call_worker(
            worker, "GET", f"{root}?{urlencode(query | {'limit': str(_PAGE_ROWS)} | after)}"
        )
        if reply is None or reply[0] != 200:
            return rows or None
        try:
            page = _page.decode(reply[2])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return rows or None
        rows += page.data
        if not page.has_more or not page.data:
            return rows
    return rows


def _created_at(row: dict[str, Any]) -> float:
    created = row.get("created_at")
    return created if isinstance(created, int | float) else 0.0  # as it is: an integer may be too large


def _cut_list(rows: list[dict[str, Any]], query: _ListQuery, default_rows: int) -> dict[str, Any]:
    """Return the page of `rows` that `query` asks for. Raises FileNotFoundAtWorkersError for its `after`."""
    if query.after is not None:
        at = next((at for at, row in enumerate(rows) if row["id"] == query.after), None)
        if at is None:
            raise FileNotFoundAtWorkersError(query.after, "after")
        rows = rows[at + 1 :]
    page = rows[: query.limit or default_rows]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(page) < len(rows),
    }
