"""`/console`: who is let in, from where, and how the process that draws the pages begins and ends."""

import asyncio
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from shutil import rmtree

import aiohttp
import pytest
import pytest_asyncio

from radixway.api.console import proxy
from radixway.api.console.process import private_socket_directory
from radixway.core.http import AppServer, bind_tcp, bind_unix
from support.running_gateway import running_gateway

KEY = "the-admin-key"
HTML = {"accept": "text/html"}
SOCKET = "/console/_nicegui_ws/socket.io/?EIO=4&transport=websocket&client_id=x"
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def started(gateway):
    """Its console's process runs, which answers this."""
    async with gateway.client.get(gateway.url + "/console/favicon.ico") as answer:
        assert answer.status == 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def locked():
    """A gateway with a key."""
    async with running_gateway(gateway={"admin_key": KEY, "drain_s": 1}) as gateway:
        await started(gateway)
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unlocked():
    """A gateway without."""
    async with running_gateway(gateway={"drain_s": 1}) as gateway:
        await started(gateway)
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def visitor():
    """A browser with cookies of its own, that follows no redirects by itself."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@asynccontextmanager
async def serving(app):
    """An ASGI application at a port of its own, and its URL."""
    server = AppServer(app, bind_tcp("127.0.0.1", 0), drain_s=1, websockets=True)
    ready = asyncio.Event()
    task = asyncio.create_task(server.serve(ready.set))
    await ready.wait()
    try:
        yield server.url
    finally:
        server.stop()
        await task


async def get(visitor, gateway, path, **headers):
    """Status, headers, text."""
    given = HTML | {name.replace("_", "-"): value for name, value in headers.items()}
    async with visitor.get(gateway.url + path, headers=given, allow_redirects=False) as answer:
        return answer.status, answer.headers, await answer.text()


async def sign_in(visitor, gateway, key, **headers):
    async with visitor.post(
        f"{gateway.url}/console/sign-in", data={"key": key}, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status, answer.headers, await answer.text()


async def test_without_a_session_there_is_the_sign_in_page_alone(locked, visitor):
    for path in ("/console/", "/console/workers", "/console/_nicegui/x", "/console/sign-in-too"):
        status, headers, _ = await get(visitor, locked, path)
        assert (status, headers["location"].partition("?")[0]) == (303, "/console/sign-in"), path
    status, _, _ = await get(visitor, locked, "/console/workers", accept="*/*")
    assert status == 401
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await visitor.ws_connect(locked.url + SOCKET)


async def test_the_key_opens_and_is_nowhere_to_be_read(locked, visitor):
    status, headers, _ = await sign_in(visitor, locked, KEY)
    assert status == 303
    cookie = next(each for each in headers.getall("set-cookie") if each.startswith("radixway_session"))
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/console" in cookie
    status, headers, page = await get(visitor, locked, "/console/workers")
    assert status == 200
    assert KEY not in page + str(headers) + cookie
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_signing_out_closes_it_to_every_tab(locked, visitor):
    await sign_in(visitor, locked, KEY)
    async with visitor.ws_connect(locked.url + SOCKET, origin=locked.url) as socket:
        assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
        async with visitor.post(f"{locked.url}/console/sign-out", allow_redirects=False) as answer:
            assert answer.status == 303
        async for _ in socket:
            pass
        assert socket.closed
    assert (await get(visitor, locked, "/console/workers"))[0] == 303


async def test_a_session_that_was_ended_stays_so_whoever_has_its_cookie(locked, visitor):
    await sign_in(visitor, locked, KEY)
    kept = {each.key: each.value for each in visitor.cookie_jar}
    async with visitor.post(f"{locked.url}/console/sign-out", allow_redirects=False):
        pass
    visitor.cookie_jar.update_cookies(kept)
    assert (await get(visitor, locked, "/console/workers"))[0] == 303


async def test_other_sites_can_neither_post_nor_open_a_socket(locked, visitor):
    status, _, _ = await sign_in(visitor, locked, KEY, origin="https://elsewhere.example")
    assert status == 403
    await sign_in(visitor, locked, KEY)
    for origin in ("https://elsewhere.example", "null", locked.url + "1"):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await visitor.ws_connect(locked.url + SOCKET, origin=origin)
    async with visitor.post(
        f"{locked.url}/console/sign-out", headers={"sec-fetch-site": "cross-site"}, allow_redirects=False
    ) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("name", ["x-radixway-admitted", "X-Radixway-Admitted"])
async def test_nobody_admits_themselves(locked, visitor, name):
    async with visitor.get(
        f"{locked.url}/console/workers", headers=HTML | {name: "1"}, allow_redirects=False
    ) as answer:
        assert answer.status == 303


async def test_after_many_wrong_keys_another_is_too_many_and_the_right_one_signs_in(visitor):
    async with running_gateway(
        gateway={"admin_key": KEY, "drain_s": 1}, console={"attempts_per_minute": 2}
    ) as gateway:
        for wrong in ("a", "ключ"):
            assert (await sign_in(visitor, gateway, wrong))[0] == 401
        for wrong in ("b", ""):
            assert (await sign_in(visitor, gateway, wrong))[0] == 429
        assert (await sign_in(visitor, gateway, KEY))[0] == 303


async def test_without_a_key_it_opens_on_this_machine_under_its_own_names(unlocked, visitor):
    port = unlocked.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]"):
        assert (await get(visitor, unlocked, "/console/workers", host=host))[0] == 200
    async with visitor.ws_connect(unlocked.url + SOCKET, origin=unlocked.url) as socket:
        assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT


async def test_a_name_that_was_led_to_this_machine_gets_nothing(unlocked, visitor):
    elsewhere = "rebound.example"
    status, headers, _ = await get(visitor, unlocked, "/console/workers", host=elsewhere)
    assert (status, headers["location"].partition("?")[0]) == (303, "/console/sign-in")
    status, _, page = await get(visitor, unlocked, "/console/sign-in", host=elsewhere)
    assert status == 403 and "console.hosts" in page
    assert (await sign_in(visitor, unlocked, "anything", host=elsewhere))[0] == 403
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await visitor.ws_connect(
            unlocked.url + SOCKET, headers={"host": elsewhere, "origin": f"http://{elsewhere}"}
        )


async def test_a_name_of_the_gateways_own_opens_it_and_a_proxy_on_this_machine_closes_it(visitor):
    tree = {"drain_s": 1, "hosts": ["models.example"]}
    async with running_gateway(gateway=tree) as gateway:
        async with visitor.get(f"{gateway.url}/console/favicon.ico"):
            pass  # the process runs
        status, _, _ = await get(visitor, gateway, "/console/workers", host="models.example:8080")
        assert status == 200
        async with visitor.get(
            f"{gateway.url}/console/workers",
            headers=HTML | {"x-forwarded-for": "203.0.113.7"},
            allow_redirects=False,
        ) as answer:
            assert answer.status == 303


async def test_a_stranger_finds_it_closed_where_there_is_no_key(visitor):
    async with running_gateway(gateway={"drain_s": 1}) as gateway:
        door = proxy.ConsoleProxy(
            gateway.gateway.config.console, gateway.gateway, gateway.gateway.authorization.access
        )

        async def from_afar(scope, receive, send):
            await door({**scope, "client": ("203.0.113.7", 4000)}, receive, send)

        async with serving(from_afar) as url:
            async with visitor.get(f"{url}/console/favicon.ico"):
                pass  # the process runs
            async with visitor.get(f"{url}/console/workers", headers=HTML) as answer:
                assert answer.status == 403
            async with visitor.post(f"{url}/console/sign-in", data={"key": "anything"}) as answer:
                assert answer.status == 403
        await door.stop()


async def test_several_processes_on_one_port_lead_a_visitor_back_to_the_same_console(visitor):
    async with AsyncExitStack() as stack:
        urls = []
        for _ in range(2):
            gateway = await stack.enter_async_context(
                running_gateway(gateway={"admin_key": KEY, "drain_s": 1})
            )

            async def as_at_one_port(scope, receive, send, gateway=gateway):
                await gateway.gateway({**scope, "server": ("127.0.0.1", 4000)}, receive, send)

            urls.append(await stack.enter_async_context(serving(as_at_one_port)))
        host = {"host": "gateways:4000"}
        async with visitor.post(
            f"{urls[0]}/console/sign-in", data={"key": KEY}, headers=host, allow_redirects=False
        ) as answer:
            cookies = "; ".join(each.partition(";")[0] for each in answer.headers.getall("set-cookie"))
        for url in urls:
            async with (
                aiohttp.ClientSession() as browser,
                browser.get(
                    f"{url}/console/workers", headers=HTML | host | {"cookie": cookies}, allow_redirects=False
                ) as answer,
            ):
                assert answer.status == 200


async def test_a_tab_whose_console_was_killed_with_its_gateway_is_led_to_another(unlocked, visitor):
    port = unlocked.url.rpartition(":")[2]
    left_behind = private_socket_directory() / f"{port}-01234567"
    left_behind.mkdir()
    try:
        bind_unix(left_behind / "console").close()
        cookie = f"radixway_console_{port}={left_behind.name}"
        headers = {"cookie": cookie, "origin": unlocked.url}
        async with asyncio.timeout(60), visitor.ws_connect(unlocked.url + SOCKET, headers=headers) as socket:
            assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
    finally:
        rmtree(left_behind)


async def test_a_gateway_without_the_package_says_what_to_install(visitor, monkeypatch):
    async with running_gateway() as gateway:
        monkeypatch.setattr(proxy, "find_spec", lambda _: None)
        status, _, page = await get(visitor, gateway, "/console")
        assert status == 200 and "pip install" in page
        status, _, told = await get(visitor, gateway, "/console", accept="application/json")
        assert "radixway[console]" in told


async def test_a_console_that_is_switched_off_is_not_there(visitor):
    async with running_gateway(console={"enabled": False}) as gateway:
        assert (await get(visitor, gateway, "/console"))[0] == 404
        assert (await gateway.get("/whoami"))[1]["admin"] is True


async def test_whoami_says_what_a_key_allows(locked):
    _, told = await locked.get("/whoami")
    assert told == {"admin": False, "by_key": False, "needs_key": True, "tenant": None}
    _, told = await locked.get("/whoami", headers={"authorization": f"Bearer {KEY}"})
    assert told == {"admin": True, "by_key": True, "needs_key": True, "tenant": None}


async def test_a_first_visitor_sees_at_once_that_it_starts(visitor):
    async with running_gateway(gateway={"drain_s": 1}) as gateway:
        for language, words in (("en-GB", "is starting"), ("zh-CN,en;q=0.8", "正在启动")):
            status, headers, page = await get(visitor, gateway, "/console/", accept_language=language)
            assert (status, headers["cache-control"]) == (200, "no-store") and words in page
            assert not gateway.gateway.console.is_ready
        await started(gateway)  # the process, which the first visit began
        assert gateway.gateway.console.is_ready
        assert "is starting" not in (await get(visitor, gateway, "/console/"))[2]


async def test_one_that_does_not_start_is_told_and_not_asked_for_again_and_again(visitor, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    async with running_gateway(gateway={"drain_s": 1}) as gateway:
        async with visitor.get(gateway.url + "/console/favicon.ico") as answer:
            assert answer.status == 503
        status, _, page = await get(visitor, gateway, "/console/")
    assert status == 503 and "does not answer" in page and "<script>" not in page


async def test_it_can_be_started_before_anybody_comes(visitor):
    async with running_gateway(gateway={"drain_s": 1}) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        gateway.gateway.console.preload(port)
        await started(gateway)
        assert "is starting" not in (await get(visitor, gateway, "/console/"))[2]
