"""Finds the worker that has a file or batch, and has new ones made where they belong."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from radixway.api.worker_files.owner_store import OWNER_STORE_ERRORS, FileKind, FileOwnerStore
from radixway.core.pipeline import (
    Endpoint,
    GatewayError,
    ModelNotServedError,
    Next,
    Reply,
    Request,
    TenantPolicy,
)
from radixway.core.pipeline.endpoints import BATCHES, FILES, RESPONSES
from radixway.routing import DefaultModelResolver, Worker, WorkerRegistry
from radixway.routing.transports import HttpTransport, WorkerSurfaceReader
from radixway.routing.transports.worker_responses import CALL_ERRORS

log = logging.getLogger(__name__)

_KINDS: dict[str, FileKind] = {FILES.path: "file", BATCHES.path: "batch", RESPONSES.path: "response"}

_MAX_KNOWN = 10_000
"""Files of which it is remembered which worker has them."""

WorkerReply = tuple[int, str, bytes]
"""Status, content type and body."""


class FileNotFoundAtWorkersError(GatewayError):
    """No worker has the file, batch or response, or it is another tenant's."""

    status = 404
    code = "not_found"

    def __init__(self, file_id: str, param: str) -> None:
        super().__init__(f"there is no {file_id[:100]!r}", param=param)


class _FileIds(msgspec.Struct):
    """The ids in a file, batch or response as workers describe it."""

    id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None


class _RequestLine(msgspec.Struct):
    """A line of a batch's file."""

    class Body(msgspec.Struct):
        model: str | None = None

    body: Body = msgspec.field(default_factory=Body)


_ids = msgspec.json.Decoder(_FileIds)
_line = msgspec.json.Decoder(_RequestLine)


class WorkerFiles:
    """Calls the worker that has a file, batch or response."""

    def __init__(
        self,
        registry: WorkerRegistry,
        transport: HttpTransport,
        surfaces: WorkerSurfaceReader,
        owners: FileOwnerStore,
        *,
        timeout_s: float,
        max_answer_bytes: int,
    ) -> None:
        """`owners`: the files of tenants; without tenants every worker is asked."""
        self._registry = registry
        self._surfaces = surfaces
        self.owners = owners
        self._known: dict[str, str] = {}
        """By id, the URL of the worker that has it; the oldest first."""
        self._exchange = partial(
            transport.exchange,
            limits=aiohttp.ClientTimeout(total=timeout_s),
            is_rare=False,
            max_bytes=max_answer_bytes,
        )

    async def list_workers(self, root: str, tenancy: TenantPolicy | None) -> Sequence[Worker]:
        """Return the ready workers of `tenancy` that have `root` (`/v1/files`), or may have it."""
        workers = self._registry.candidates(None)
        await self._surfaces.learn_surfaces(workers)
        return [
            worker
            for worker in workers
            if worker.may_offer(root)
            and (tenancy is None or tenancy.may_use_worker(worker.pools, worker.models))
        ]

    async def call_worker(
        self, worker: Worker, method: str, target: str, body: bytes = b"", via: str | None = None
    ) -> WorkerReply | None:
        """Return the reply of `worker`, None if there is none."""
        headers = {"content-type": "application/json"} | ({"via": via} if via else {})
        try:
            return await self._exchange(worker, method, target, body, headers=headers)
        except CALL_ERRORS:
            return None

    async def find_worker(self, root: str, file_id: str, tenancy: TenantPolicy | None, param: str) -> Worker:
        """Return the worker that has `file_id` beneath `root`. Raises FileNotFoundAtWorkersError."""
        if tenancy is not None:
            url = await self.owners.find_worker(tenancy.name, file_id)
        else:
            url = self._known.get(file_id)
        worker = None if url is None else self._registry.get_worker(url)
        if worker is not None:
            return worker
        if tenancy is None:
            for each in await self.list_workers(root, None):
                reply = await self.call_worker(each, "GET", f"{root}/{quote(file_id, safe='')}")
                if reply is not None and reply[0] == 200:
                    self._remember(file_id, each)
                    return each
        raise FileNotFoundAtWorkersError(file_id, param)

    async def note_files(self, root: str, body: bytes, worker: Worker, tenancy: TenantPolicy | None) -> None:
        """Note whose the file, batch or response in `body`, of `worker`, is, with what came of it.

        `root`: what it is (`/v1/files`). A store that cannot be used is logged: the worker has answered.
        """
        try:
            found = _ids.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        kinds: dict[str | None, FileKind] = {
            found.output_file_id: "file",
            found.error_file_id: "file",
            found.id: _KINDS[root],
        }
        try:
            for file_id, kind in kinds.items():
                if file_id:
                    self._remember(file_id, worker)
                    if tenancy is not None:
                        await self.owners.add_file(tenancy.name, file_id, worker.url, kind)
        except OWNER_STORE_ERRORS as error:
            log.warning("cannot record the owner of a %s: %s", _KINDS[root], type(error).__name__)

    async def forget_file(self, root: str, file_id: str, tenancy: TenantPolicy | None) -> None:
        """Forget `file_id` beneath `root`, which its worker has no more."""
        self._known.pop(file_id, None)
        if tenancy is None:
            return
        try:
            await self.owners.remove_file(tenancy.name, file_id, _KINDS[root])
        except OWNER_STORE_ERRORS as error:
            log.warning("cannot delete the owner of a %s: %s", _KINDS[root], type(error).__name__)

    def find_by_name(self, name: str) -> Worker | None:
        """Return the worker of that name."""
        return next((worker for worker in self._registry if worker.name == name), None)

    def _remember(self, file_id: str, worker: Worker) -> None:
        self._known.pop(file_id, None)
        self._known[file_id] = worker.url
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]


class FilePlacement:
    """A `pipeline.Middleware`: a file goes to a worker of the model that its lines ask for, a batch to the
    worker that has its file."""

    step_name = "Files"

    def __init__(self, files: WorkerFiles, models: DefaultModelResolver) -> None:
        self._files = files
        self._models = models

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` makes files or batches."""
        return endpoint in (FILES, BATCHES)

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the worker's answer. Raises FileNotFoundAtWorkersError, ModelNotServedError."""
        tenancy = request.caller.policy
        if request.endpoint is BATCHES:
            file_id: Any = request.body["input_file_id"]
            worker = await self._files.find_worker(FILES.path, file_id, tenancy, "input_file_id")
            request.pinned = worker.name
        elif request.form is not None:
            content = request.form.find_file("file") or b""
            request.model = await asyncio.to_thread(self._find_model, content, tenancy)
        reply = await call_next(request)
        answered = self._files.find_by_name(reply.worker)
        if 200 <= reply.status < 300 and answered is not None:
            await self._files.note_files(request.endpoint.path, reply.body, answered, tenancy)
        return reply

    def _find_model(self, content: bytes, tenancy: TenantPolicy | None) -> str | None:
        """Return the model that all lines of `content` ask for, None where they are no such lines."""
        models = set()
        for line in content.splitlines():
            try:
                model = _line.decode(line).body.model
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if model is not None:
                models.add(self._models.resolve_model(model, tenancy) or model)
        for model in models:
            if tenancy is not None and not tenancy.allows_model(model):
                raise ModelNotServedError(model)
        return models.pop() if len(models) == 1 else None
