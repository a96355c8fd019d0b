"""A real browser that has a page of another site open, beside a gateway and an engine without keys."""

import os
from contextlib import ExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import aiohttp
import pytest
from playwright.async_api import async_playwright

from support.engine_process import engine_process
from support.gateway_process import gateway_process

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

REBOUND = "rebound.example"
CHROMIUM = os.environ.get("RADIXWAY_CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
)
SEND = """async ([url, method, body]) => {
    const how = {method, mode: "no-cors", credentials: "include"};
    if (body !== null) { how.body = body; how.headers = {"content-type": "text/plain"}; }
    await fetch(url, how);
}"""
READ = """async ([url, method, body]) => {
    const how = body === null ? {method} : {method, body};
    const answer = await fetch(url, how);
    return [answer.status, await answer.text()];
}"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """The ports of a gateway, of its engine, and of somebody else's page."""
    directory = tmp_path_factory.mktemp("sites")
    with ExitStack() as stack:
        engine = stack.enter_context(engine_process())[0]
        tree = {"gateway": {"port": 0, "drain_s": 1}, "workers": [{"url": engine}]}
        gateway, _ = stack.enter_context(gateway_process(directory, tree, home=directory / "home"))
        elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
        Thread(target=elsewhere.serve_forever, daemon=True).start()
        stack.callback(elsewhere.server_close)
        stack.callback(elsewhere.shutdown)
        yield gateway.rpartition(":")[2], engine.rpartition(":")[2], elsewhere.server_address[1]


@asynccontextmanager
async def browsing(url):
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page()
        await page.goto(url)
        yield page
        await browser.close()


async def state_of(gateway, engine):
    """What a page could have changed."""
    async with aiohttp.ClientSession() as client:
        async with client.get(f"http://127.0.0.1:{gateway}/list_workers") as answer:
            workers = [
                (each["url"], each["state"] == "draining") for each in (await answer.json())["workers"]
            ]
        async with client.get(f"http://127.0.0.1:{engine}/server_info") as answer:
            info = await answer.json()
        return workers, info["paused"], info["weight_version"]


async def test_a_page_of_another_site_changes_neither(servers):
    gateway, engine, elsewhere = servers
    before = await state_of(gateway, engine)
    worker = f'{{"url": "http://127.0.0.1:{engine}"}}'
    calls = [
        (gateway, "/add_worker", '{"url": "http://127.0.0.1:9"}'),
        (gateway, "/drain_worker", worker),
        (gateway, "/remove_worker", worker),
        (gateway, "/pause_generation", "{}"),
        (gateway, "/update_weight_version", '{"new_version": "theirs"}'),
        (engine, "/pause_generation", "{}"),
        (engine, "/update_weight_version", '{"new_version": "theirs"}'),
        (engine, "/flush_cache", None),
    ]
    async with browsing(f"http://127.0.0.1:{elsewhere}/") as page:
        refused = []
        page.on("response", lambda answer: refused.append((answer.url, answer.status)))
        for port, path, body in calls:
            for name in ("localhost", "127.0.0.1"):
                await page.evaluate(
                    SEND, [f"http://{name}:{port}{path}", "GET" if body is None else "POST", body]
                )
        assert {status for _, status in refused} == {403} and len(refused) == 2 * len(calls)
    assert await state_of(gateway, engine) == before


async def test_a_page_whose_name_is_led_here_reads_and_changes_neither(servers):
    gateway, engine, _ = servers
    before = await state_of(gateway, engine)
    for port, paths in (
        (gateway, ("/list_workers", "/v1/models", "/requests", "/metrics")),
        (engine, ("/server_info", "/v1/models", "/cached_prefixes")),
    ):
        async with browsing(f"http://{REBOUND}:{port}/health") as page:
            for path in paths:
                status, said = await page.evaluate(READ, [path, "GET", None])
                assert status == 403 and "rebound.example" in said, (path, said)
            for path in ("/pause_generation", "/v1/completions"):
                assert (await page.evaluate(READ, [path, "POST", "{}"]))[0] == 403
    assert await state_of(gateway, engine) == before


async def test_the_gateways_own_page_may(servers):
    gateway, _, _ = servers
    async with browsing(f"http://localhost:{gateway}/health") as page:
        body = '{"url": "http://127.0.0.1:9"}'
        assert (await page.evaluate(READ, ["/add_worker", "POST", body]))[0] == 200
        assert (await page.evaluate(READ, ["/remove_worker", "POST", body]))[0] == 200
        assert (await page.evaluate(READ, ["/requests", "GET", None]))[0] == 200
