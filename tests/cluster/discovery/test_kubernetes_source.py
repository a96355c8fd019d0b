"""EndpointSlices that are watched, against the small API server of the tests."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from itertools import count

import pytest
from aiohttp import web

from radixway.cluster.discovery import DiscoverySourceError
from radixway.cluster.discovery.kubernetes_source import KubernetesSource
from radixway.core.config import KubernetesConfig
from support.certificates import certificate
from support.endpoint_slices import KIND, LABELS, endpoint, endpoint_slice
from support.kubernetes_api import kubernetes_api


class Told:
    """What a source has told, and a way to wait for it."""

    def __init__(self):
        self.workers = None
        self._news = asyncio.Condition()
        self._tasks = set()

    def __call__(self, found):
        self.workers = {each.section.url: "draining" if each.draining else "ready" for each in found}
        task = asyncio.create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self):
        async with self._news:
            self._news.notify_all()

    async def until(self, **workers):
        """`a="ready"` is the worker at 10.0.0.a."""
        expected = {f"http://10.0.0.{name[1:]}:8000": state for name, state in workers.items()}
        async with self._news, asyncio.timeout(20):
            await self._news.wait_for(lambda: self.workers == expected)


def at_once():
    """A clock by which every watch is over as soon as it began."""
    return 0.0


@asynccontextmanager
async def followed(source, told):
    """The task that follows it, until it fails."""
    task = asyncio.create_task(source.follow_workers(told))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def following(api, clock=at_once, **config):
    """The source's words, the task that follows it, and the source."""
    given = {"namespace": "ai", "server": api.url, **config}
    source, told = KubernetesSource(KubernetesConfig.model_validate(given), clock=clock), Told()
    async with followed(source, told) as task:
        yield told, task, source


@pytest.fixture
async def api():
    async with kubernetes_api() as api:
        yield api


async def test_endpoints_appear_drain_and_vanish_as_the_watch_says(api):
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    async with following(api) as (told, _, _):
        await told.until(_1="ready")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.1"), endpoint("10.0.0.2", ready=False)))
        await told.until(_1="ready", _2="draining")
        api.put(
            KIND, endpoint_slice(endpoint("10.0.0.1", ready=False, terminating=True), endpoint("10.0.0.2"))
        )
        await told.until(_1="draining", _2="ready")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2")))
        await told.until(_2="ready")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.3"), name="vllm-llama-y"))
        await told.until(_2="ready", _3="ready")
        api.delete(KIND, "ai", "vllm-llama-x")
        await told.until(_3="ready")
        api.put(KIND, endpoint_slice(name="vllm-llama-y"))
        await told.until()
    assert len(api.lists) == 1


async def test_only_services_that_the_selector_selects_count(api):
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    api.put(KIND, endpoint_slice(endpoint("10.0.0.2"), name="b", labels={**LABELS, "model": "qwen"}))
    api.put(KIND, endpoint_slice(endpoint("10.0.0.3"), name="c", namespace="other"))
    async with following(api, selector="app=vllm-worker, model=llama") as (told, _, _):
        await told.until(_1="ready")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2"), name="b"))
        await told.until(_1="ready", _2="ready")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.1"), labels={}))
        await told.until(_2="ready")
    async with following(api, namespace="*") as (told, _, _):
        await told.until(_2="ready", _3="ready")


async def test_a_long_list_comes_in_pages(api):
    api.page = 2
    for i in range(1, 6):
        api.put(KIND, endpoint_slice(endpoint(f"10.0.0.{i}"), name=f"s{i}"))
    async with following(api) as (told, _, _):
        await told.until(**{f"_{i}": "ready" for i in range(1, 6)})
    assert ["continue" in query for query in api.lists] == [False, True, True]


async def test_a_watch_that_ends_is_begun_anew_where_it_was_and_nothing_is_listed_again(api):
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    async with following(api, clock=count(step=10).__next__) as (told, _, _):
        await told.until(_1="ready")
        await api.until_watched(1)
        reached = api.version
        api.end_watches()
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2")))
        await told.until(_2="ready")
    assert [query["resourceVersion"] for query in api.watches] == [str(reached)] * 2
    assert len(api.lists) == 1


async def test_so_it_is_when_the_connection_breaks(api):
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    async with following(api) as (told, task, source):
        await api.until_watched(1)
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2")))
        await told.until(_2="ready")
        reached = api.version
        api.end_watches(broken=True)
        with pytest.raises(DiscoverySourceError):
            await task
        api.put(KIND, endpoint_slice(endpoint("10.0.0.3")))
        async with followed(source, told):
            await told.until(_3="ready")
    assert api.watches[1]["resourceVersion"] == str(reached)
    assert len(api.lists) == 1


async def test_a_server_that_ends_watches_at_once_is_not_asked_without_a_pause(api):
    async with following(api) as (_, task, _):
        await api.until_watched(1)
        api.end_watches()
        with pytest.raises(DiscoverySourceError, match="ends watches at once"):
            await task


async def test_a_bookmark_says_how_far_all_is_known(api):
    async with following(api) as (told, task, source):
        await api.until_watched(1)
        api.bookmark()
        bookmarked = api.version
        api.end_watches()
        with pytest.raises(DiscoverySourceError):
            await task
        api.oldest = bookmarked  # all before it is forgotten
        async with followed(source, told):
            await api.until_watched(2)
            api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
            await told.until(_1="ready")
    assert api.watches[1]["resourceVersion"] == str(bookmarked)
    assert len(api.lists) == 1


@pytest.mark.parametrize("as_event", [True, False], ids=["as an event", "as the answer"])
async def test_all_is_listed_again_when_the_version_is_gone(api, as_event):
    api.gone_as_event = as_event
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    async with following(api) as (told, task, source):
        await api.until_watched(1)
        api.end_watches()
        with pytest.raises(DiscoverySourceError):
            await task
        api.delete(KIND, "ai", "vllm-llama-x")
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2"), name="y"))
        api.compact()
        async with followed(source, told):
            await told.until(_2="ready")
    assert len(api.lists) == 2


async def test_what_expires_as_soon_as_it_is_listed_is_a_failure_and_no_endless_loop(api):
    api.oldest = 10**6
    api.page = 1
    api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
    async with following(api) as (_, task, _):
        with pytest.raises(DiscoverySourceError, match="has expired"):
            async with asyncio.timeout(10):
                await task


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"not json\n", "cannot be read"),
        (b'{"type": "MODIFIED", "object": {"endpoints": 5}}\n', "cannot be read"),
        (b'{"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}}\n', "etcd is away"),
    ],
)
async def test_what_no_api_server_says_is_a_failure_of_the_source(api, line, why):
    async with following(api) as (_, task, _):
        await api.until_watched(1)
        api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
        api.send_raw(line)
        with pytest.raises(DiscoverySourceError, match=why):
            async with asyncio.timeout(10):
                await task


@pytest.mark.parametrize(
    ("answer", "why", "after"),
    [
        ((403, '{"kind": "Status", "message": "endpointslices is forbidden"}'), "403: .*is forbidden", None),
        ((429, ""), "429: Too Many Requests", 7),
        ((302, ""), "302", None),
    ],
)
async def test_a_refusal_is_told_in_the_servers_words(api, answer, why, after):
    headers = {"retry-after": str(after)} if after else {}
    api.refuses_with = web.Response(status=answer[0], text=answer[1], headers=headers)
    async with following(api) as (_, task, _):
        with pytest.raises(DiscoverySourceError, match=why) as told:
            await task
        assert told.value.retry_after_s == after


async def test_in_a_cluster_the_service_account_is_used_and_its_token_read_again(tmp_path):
    ca, _, authority = certificate("authority", tmp_path)
    served, key, _ = certificate("server", tmp_path, authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(served, key)
    for name, text in {"token": "first\n", "namespace": "ai", "ca.crt": ca.read_text()}.items():
        (tmp_path / name).write_text(text)
    async with kubernetes_api(tls) as api:
        host, port = api.url.removeprefix("https://").split(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        source, told = KubernetesSource(KubernetesConfig(), environ, tmp_path, at_once), Told()
        assert source.name == "kubernetes own namespace: app=vllm-worker"
        api.tokens = {"first"}
        api.put(KIND, endpoint_slice(endpoint("10.0.0.1")))
        async with followed(source, told) as task:
            await told.until(_1="ready")
            await api.until_watched(1)
            (tmp_path / "token").write_text("second\n")
            api.tokens = {"second"}
            api.end_watches()
            with pytest.raises(DiscoverySourceError):
                await task
        api.put(KIND, endpoint_slice(endpoint("10.0.0.2")))
        async with followed(source, told):
            await told.until(_2="ready")


async def test_a_server_whose_certificate_nobody_vouches_for_is_not_believed(tmp_path):
    served, key, _ = certificate("server", tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(served, key)
    async with kubernetes_api(tls) as api, following(api) as (_, task, _):
        with pytest.raises(DiscoverySourceError, match="certificate"):
            await task


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "this is no Kubernetes cluster: say which one by server"),
        ({"server": "http://127.0.0.1:1"}, "namespace: .*No such file"),
        (
            {"server": "https://127.0.0.1:1", "namespace": "ai", "token_file": "/none"},
            "token: /none: No such file",
        ),
        (
            {"server": "http://127.0.0.1:1", "namespace": "ai", "ca_file": "/none"},
            "ca_file /none: No such file",
        ),
        ({"server": "http://127.0.0.1:1", "namespace": "ai"}, "127.0.0.1:1: Cannot connect"),
    ],
)
async def test_what_is_missing_is_named(tmp_path, config, why):
    source = KubernetesSource(KubernetesConfig.model_validate(config), {}, tmp_path)
    with pytest.raises(DiscoverySourceError, match=why):
        await source.follow_workers(Told())
