"""`radixway workers`: the workers of a running gateway.

`radixway workers announce`: beside a worker, says at gateways that it is there, until a signal.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from typer import Option

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl, drop_unset
from radixway.cli.terminal import exit_on, exit_with_error, on_stop_signal, out, run_call
from radixway.core.config import check_worker_url


def workers_add(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Add a worker by its URL."""
    from radixway.core.http.gateway_client import WorkerLoads, call_gateway

    with exit_on(ValueError):
        target = check_worker_url(worker)
    run_call(call_gateway(url, "POST", "/add_worker", WorkerLoads, {"url": target}, key))
    out.print(f"added {target}")


def workers_remove(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Remove a worker; what it is answering goes on to its end."""
    _change_worker("/remove_worker", worker, url, key)
    out.print(f"removed {worker}")


def workers_drain(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Send a worker no new requests.

    It finishes what it is answering, and stays listed.
    """
    _change_worker("/drain_worker", worker, url, key)
    out.print(f"{worker} drains; radixway workers resume {worker} takes that back")


def workers_resume(worker: str, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Send a draining worker requests again, with the settings it had."""
    _change_worker("/resume_worker", worker, url, key)
    out.print(f"resumed {worker}")


def _change_worker(path: str, worker: str, url: str, key: str | None) -> None:
    """Call `path` for `worker`; one that is not known ends the command with near names."""
    from radixway.core.http.gateway_client import GatewayCallError, WorkerListing, WorkerLoads, call_gateway
    from radixway.core.near_names import suggest_names

    worker = worker if "://" in worker else f"http://{worker}"
    try:
        asyncio.run(call_gateway(url, "POST", path, WorkerLoads, {"url": worker}, key))
    except GatewayCallError as error:
        near = ""
        if error.status == 404:
            known = run_call(call_gateway(url, "GET", "/list_workers", WorkerListing, key=key)).workers
            near = suggest_names(worker, [each.url for each in known])
        exit_with_error(f"{error}{near}")


def workers_list(url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Show the workers, their load and their errors."""
    from radixway.core.http.gateway_client import WorkerListing, call_gateway
    from radixway.core.telemetry.terminal import FittedTable, TableColumn, printable

    workers = run_call(call_gateway(url, "GET", "/list_workers", WorkerListing, key=key)).workers
    is_any_hosted = any(worker.provider for worker in workers)
    table = FittedTable(
        *(
            TableColumn("worker", is_id=True),
            *((TableColumn("provider"),) if is_any_hosted else ()),
            TableColumn("state"),
            TableColumn("models"),
            TableColumn("in flight", is_number=True),
        ),
        TableColumn("answered", is_number=True, drop_order=1),
        TableColumn("KV tokens", is_number=True, drop_order=2),
        TableColumn("from", drop_order=3),
    )
    for worker in workers:
        # One that joins and has failed a probe is no different from one that went down.
        is_down = worker.state == "joining" and worker.trouble
        table.add_row(
            worker.url,
            *((worker.provider or "",) if is_any_hosted else ()),
            "down" if is_down else worker.state,
            ", ".join(worker.models),
            str(worker.in_flight),
            str(worker.total),
            str(worker.kv_tokens or ""),
            ", ".join(worker.sources),
            style="red" if worker.trouble else "",
        )
    table.print_to(out)
    for worker in workers:
        if worker.trouble:
            out.print(printable(f"{worker.url}: {worker.trouble}"), style="red")


_RETRY_S = 1.0
"""Pause before a gateway that did not answer is called again."""
_LOOK_S = 0.5
"""Pause between two questions if a leaving worker still has requests."""


def workers_announce(
    worker: str,
    url: Annotated[
        list[str] | None,
        Option(help=f"A gateway; repeatable. Default: {GATEWAY}", envvar="RADIXWAY_URL", metavar="URL"),
    ] = None,
    key: AdminKey = None,
    model: Annotated[list[str] | None, Option(help="Default: what the worker says")] = None,
    pool: Annotated[list[str] | None, Option(help="A pool it belongs to; repeatable")] = None,
    role: Annotated[str | None, Option(metavar="any|prefill|decode")] = None,
    disaggregation: Annotated[str | None, Option(metavar="vllm|sglang")] = None,
    max_batch_size: Annotated[int | None, Option(min=1, help="Requests it runs at a time")] = None,
    max_in_flight: Annotated[int | None, Option(min=1, help="Requests it is given at a time")] = None,
    ttl: Annotated[float, Option(min=1, help="Seconds that a registration lasts")] = 30,
    drain: Annotated[float, Option(min=0, help="Seconds that it may take to finish at the end")] = 600,
) -> None:
    """Announce a worker at gateways until a signal.

    Then wait until it has finished its requests.
    """
    with exit_on(ValueError):
        target = check_worker_url(worker)
    fields = drop_unset(
        models=model,
        pools=pool,
        role=role,
        disaggregation=disaggregation,
        max_batch_size=max_batch_size,
        max_in_flight=max_in_flight,
    )
    asyncio.run(_announce({"url": target, "ttl_s": ttl, **fields}, url or [GATEWAY], key, drain))


async def _announce(body: dict[str, Any], gateways: list[str], key: str | None, drain_s: float) -> None:
    from radixway.core.net.task_cancellation import cancel_tasks

    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    beating = [asyncio.create_task(_send_heartbeat(gateway, body, key)) for gateway in gateways]
    stopped = asyncio.create_task(stopping.wait())
    refused, _ = await asyncio.wait([stopped, *beating], return_when=asyncio.FIRST_COMPLETED)
    await cancel_tasks([stopped, *beating])
    for task in refused - {stopped}:
        exit_with_error(str(task.exception()))
    try:
        async with asyncio.timeout(drain_s):
            await asyncio.gather(*(_deregister(gateway, body["url"], key) for gateway in gateways))
    except TimeoutError:
        exit_with_error(f"{body['url']} has not finished within {drain_s:g} s")


async def _send_heartbeat(gateway: str, body: dict[str, Any], key: str | None) -> None:
    """Send a heartbeat; log the answer when it changes. Raises GatewayCallError for a permanent refusal."""
    from radixway.core.http.gateway_client import GatewayCallError, WorkerRegistered, call_gateway

    shown = ""
    while True:
        try:
            answer = await call_gateway(gateway, "POST", "/workers", WorkerRegistered, body, key)
            says, pause_s = answer.state, answer.heartbeat_s
        except GatewayCallError as failure:
            if failure.status == 400:
                raise
            says, pause_s = str(failure), _RETRY_S
        if says != shown:
            out.print(f"{body['url']} at {gateway}: {says}")
            shown = says
        await asyncio.sleep(pause_s)


async def _deregister(gateway: str, worker: str, key: str | None) -> None:
    """Deregister; return once no requests are in flight there or the gateway is gone."""
    from radixway.core.http.gateway_client import GatewayCallError, WorkerRegistered, call_gateway

    while True:
        try:
            answer = await call_gateway(gateway, "DELETE", "/workers", WorkerRegistered, {"url": worker}, key)
        except GatewayCallError as failure:
            if failure.status != 404:
                out.print(f"{worker} at {gateway}: {failure}")
            return
        if not answer.in_flight:
            return
        await asyncio.sleep(_LOOK_S)
