"""`/v1/files`, `/v1/batches`, and responses that workers keep: they belong to the worker that took them, and
every call goes back there.

Begin with `locations.py`. State: the tenants' files, in `owner_store.py`. Which worker has one is remembered,
and found again by asking, in any process and after a restart.
"""

from radixway.api.worker_files.locations import FilePlacement, WorkerFiles
from radixway.api.worker_files.owner_store import FileOwnerStore
from radixway.api.worker_files.responses import ResponsePlacement, response_routes
from radixway.api.worker_files.routes import file_routes

__all__ = [
    "FileOwnerStore",
    "FilePlacement",
    "ResponsePlacement",
    "WorkerFiles",
    "file_routes",
    "response_routes",
]
