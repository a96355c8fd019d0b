"""What a row says of a worker or a request, without a browser."""

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


def test_a_hosted_worker_is_shown_with_its_provider_and_found_by_it() -> None:
    own = Worker(WorkerSettings(url="http://a:8000")).describe()
    cells = worker_cells(TextCatalog("en"), own | {"provider": "anthropic"}, None)
    assert cells["provider"] == "anthropic" and "anthropic" in cells["found_by"]
    assert worker_cells(TextCatalog("en"), own, None)["provider"] == ""
