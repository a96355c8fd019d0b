"""`radixway workers`: the workers of a running gateway."""

from __future__ import annotations

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import exit_with_error, out, run_call
from radixway.config import check_worker_url


def workers_add(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Add a worker by its URL."""
    from radixway.client import WorkerLoads, call_gateway

    try:
        target = check_worker_url(worker)
    except ValueError as error:
        exit_with_error(str(error))
    run_call(call_gateway(url, "POST", "/add_worker", WorkerLoads, {"url": target}, key))
    out.print(f"added {target}")


def workers_remove(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Remove a worker; what it is answering goes on to its end."""
    from radixway.client import WorkerLoads, call_gateway

    run_call(call_gateway(url, "POST", "/remove_worker", WorkerLoads, {"url": worker}, key))
    out.print(f"removed {worker}")


def workers_list(url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Show the workers, their load, and why those that are not ready are not."""
    from radixway.client import WorkerListing, call_gateway
    from radixway.telemetry.tables import FittedTable, TableColumn, printable

    workers = run_call(call_gateway(url, "GET", "/list_workers", WorkerListing, key=key)).workers
    table = FittedTable(
        *(
            TableColumn("worker", is_id=True),
            TableColumn("state"),
            TableColumn("models"),
            TableColumn("in flight", is_number=True),
        ),
        TableColumn("answered", is_number=True, drop_order=1),
        TableColumn("KV tokens", is_number=True, drop_order=2),
        TableColumn("from", drop_order=3),
    )
    for worker in workers:
        table.add_row(
            worker.url,
            worker.state,
            ", ".join(worker.models),
            str(worker.in_flight),
            str(worker.total),
            str(worker.kv_tokens or ""),
            ", ".join(worker.sources),
        )
    table.print_to(out)
    for worker in workers:
        if worker.trouble:
            out.print(printable(f"{worker.url}: {worker.trouble}"), soft_wrap=True)
