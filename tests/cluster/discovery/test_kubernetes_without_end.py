"""An API server, or what stands in its place, whose answers do not end: nobody waits or stores for ever."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from radixway.cluster.discovery import DiscoverySourceError, kubernetes_api
from radixway.cluster.discovery.kubernetes_source import KubernetesSource
from radixway.core.config import KubernetesConfig

SLICE = b'{"metadata": {"name": "s", "namespace": "ai"}}'


@asynccontextmanager
async def answering(answer):
    """A source that asks whoever answers so."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield KubernetesSource(
            KubernetesConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}", namespace="ai")
        )
    finally:
        await runner.cleanup()


async def failure(source):
    with pytest.raises(DiscoverySourceError) as told:
        async with asyncio.timeout(30):
            await source.follow_workers(lambda found: None)
    return str(told.value)


async def test_a_page_without_end_is_read_no_further_than_any_list_is_long(monkeypatch):
    monkeypatch.setattr(kubernetes_api, "_MAX_PAGE_BYTES", 2**16)

    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata": {}, "items": [' + SLICE)
        while True:
            await response.write(b"," + SLICE)

    async with answering(endless) as source:
        assert await failure(source) == "a list's page of more than 65536 bytes"


async def test_pages_without_end_are_not_asked_for_for_ever(monkeypatch):
    monkeypatch.setattr(kubernetes_api, "_MAX_PAGES", 3)
    asked = []

    async def one_more(request):
        asked.append(request.query.get("continue"))
        return web.Response(text='{"metadata": {"continue": "again"}, "items": []}')

    async with answering(one_more) as source:
        assert await failure(source) == "a list of more than 3 pages"
    assert asked == [None, "again", "again"]


async def test_what_is_nested_without_end_is_said_to_be_unreadable():
    async def nested(request):
        if "watch" not in request.query:
            return web.Response(text='{"metadata": {"resourceVersion": "1"}}')
        return web.Response(text='{"type": "ADDED", "object": ' + "[" * 100_000 + "]" * 100_000 + "}\n")

    async with answering(nested) as source:
        assert (await failure(source)).startswith("the API server's answer cannot be read")
