"""`radixway workers`: the workers of a running gateway."""

from __future__ import annotations

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl
from radixway.cli.terminal import fail, finish, out
from radixway.config import check_worker_url


def workers_add(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Add a worker by its URL."""
    from radixway.client import Loads, call

    try:
        target = check_worker_url(worker)
    except ValueError as error:
        fail(str(error))
    finish(call(url, "POST", "/add_worker", Loads, {"url": target}, key))
    out.print(f"added {target}")


def workers_remove(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Remove a worker; what it is answering goes on to its end."""
    from radixway.client import Loads, call

    finish(call(url, "POST", "/remove_worker", Loads, {"url": worker}, key))
    out.print(f"removed {worker}")


def workers_list(url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Show the workers, their load, and why those that are not ready are not."""
    from radixway.client import Listing, call
    from radixway.telemetry.tables import Column, FittedTable, printable

    workers = finish(call(url, "GET", "/list_workers", Listing, key=key)).workers
    table = FittedTable(
        *(
            Column("worker", is_id=True),
            Column("state"),
            Column("models"),
            Column("in flight", is_number=True),
        ),
        Column("answered", is_number=True, drop_order=1),
        Column("KV tokens", is_number=True, drop_order=2),
        Column("from", drop_order=3),
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
