"""Puts the pages together and serves them."""

from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from radixway.console.access_guard import AccessGuard
from radixway.console.gateway_calls import GatewayConnection
from radixway.console.gateway_watch import GatewayWatch
from radixway.console.sign_in import SignInSessions, sign_in_routes
from radixway.core.http import AppServer, bind_tcp, bind_unix


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Options of a console process."""

    gateway: str
    """http(s)://…, or `unix:PATH`."""
    listen: str
    """`HOST:PORT`, or `unix:PATH`: then a gateway stands in front and says who visits."""
    hosts: Collection[str] = ()
    session_s: float = 12 * 3600
    attempts_per_minute: int = 10


async def run_console(options: ConsoleOptions, ready: Callable[[str], None]) -> None:
    """Serve until a signal; call `ready` with the address. Raises CannotListenError."""
    line = GatewayConnection(options.gateway)
    watch = GatewayWatch()
    app, lifespan = _build_app(options, line, watch)
    unix = options.listen.removeprefix("unix:")
    if unix != options.listen:
        listener = bind_unix(Path(unix))
    else:
        host, _, port = options.listen.rpartition(":")
        listener = bind_tcp(host.strip("[]"), int(port))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(line.open_session())
        await stack.enter_async_context(watch.running())
        await stack.enter_async_context(lifespan.router.lifespan_context(lifespan))
        server = AppServer(app, listener, drain_s=1, websockets=True)  # after NiceGUI has looked for servers
        with server.stopped_by_signals():
            await server.serve(lambda: ready(server.url))


def _build_app(
    options: ConsoleOptions, line: GatewayConnection, watch: GatewayWatch
) -> tuple[AccessGuard, FastAPI]:
    from nicegui import ui

    from radixway.console.assets import DIRECTORY
    from radixway.console.page import BASE
    from radixway.console.page_frame import add_pages

    sign_ins = SignInSessions(options.session_s, monotonic)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.router.routes.append(Route(BASE, _redirect_to_first))
    app.router.routes += sign_in_routes(line, sign_ins, options.attempts_per_minute)
    app.router.routes.append(Mount(f"{BASE}/assets", StaticFiles(directory=DIRECTORY)))
    add_pages(line, sign_ins, watch)
    ui.run_with(
        app,
        mount_path=BASE,
        title="Radixway",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=15.0,
    )
    alone = not options.listen.startswith("unix:")
    return AccessGuard(app, line, sign_ins, options.hosts, alone=alone), app


async def _redirect_to_first(request: Request) -> Response:
    return RedirectResponse(f"{request.url.path}/", 307)
