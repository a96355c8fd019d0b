"""What a row says of a worker, without a browser."""

import pytest

from radixway.console.pages.workers.page import worker_cells
from radixway.console.texts import TextCatalog
from radixway.core.config import WorkerSettings
from radixway.core.http.gateway_client import ListedWorker
from radixway.routing import Worker, WorkerState
from radixway.routing.worker import ErrorKind


@pytest.mark.parametrize(
    ("state", "error_kind", "is_told"),
    [
        ("ready", None, False),
        ("draining", None, False),  # it answered again since
        ("draining", "refused", True),
        ("down", "refused", True),
        ("stale", None, True),  # the reason is that of the gateway itself
    ],
)
def test_only_an_error_of_now_is_told(state: str, error_kind: ErrorKind | None, is_told: bool) -> None:
    worker = Worker(WorkerSettings(url="http://a:8000"))
    worker.state, worker.last_error, worker.error_kind = WorkerState(state), "why", error_kind
    described = worker.describe()
    expected = "why" if is_told else ""
    assert worker_cells(TextCatalog("en"), described, None)["trouble"] == expected
    known = {name: described[name] for name in ListedWorker.__struct_fields__}
    assert ListedWorker(**known).trouble == expected
