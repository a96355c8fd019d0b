"""Classes built as `(app, *, router)` around a real gateway: what the Slime router's users write."""

import asyncio
import json

import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse, Response

from radixway.core.config import ConfigError, load_config
from radixway.core.pipeline import import_class
from radixway.gateway.app import Gateway
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

ABORTED = b'{"text": " par", "meta_info": {"finish_reason": {"type": "abort"}}}'
DONE = b'{"text": " whole", "odd":  1e-5, "meta_info": {"finish_reason": {"type": "stop"}}}'
PROMPT = b'{"text": "a prompt", "odd":  1e-5, "sampling_params": {"max_new_tokens": 4}}'


def around(*names, **sections):
    """A gateway's configuration with these classes of this module, outermost first."""
    paths = [name if "." in name else f"{__name__}.{name}" for name in names]
    return {"pipeline": {"middlewares": [*paths, "radixway.core.pipeline.retry.Retry"]}, **sections}


def in_turn(*replies):
    """A worker's behaviour: these bodies, one after another."""
    left = list(replies)

    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, left.pop(0))

    return answer


class Seen(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)
        self.router = router
        router.seen = []

    async def dispatch(self, request, call_next):
        self.router.seen.append(request.url.path)
        response = await call_next(request)
        response.headers["x-workers"] = json.dumps(self.router.list_workers())
        return response


async def test_a_dispatching_class_sees_every_path_and_shares_the_router():
    async with scripted_worker() as worker, running_gateway(worker.url, **around("Seen")) as gateway:
        _, told, headers = await gateway.chat()
        assert told["odd"] == 1e-5
        assert json.loads(headers["x-workers"]) == [worker.url]
        assert (await gateway.get("/list_workers"))[0] == 200
        assert gateway.gateway.router.seen == ["/v1/chat/completions", "/list_workers"]
        counts = gateway.gateway.router.worker_urls
        assert dict(counts) == {worker.url: 0}
        gateway.gateway.router.add_worker("http://127.0.0.1:9")
        assert set(counts) == {worker.url, "http://127.0.0.1:9"}  # a live view


class First(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers.append("x-order", type(self).__name__)
        return response


class Second(First): ...


async def test_the_configuration_names_the_outermost_first():
    async with running_gateway(**around("First", "Second")) as gateway:
        async with gateway.client.get(gateway.url + "/health") as response:
            assert response.headers.getall("x-order") == ["Second", "First"]


class RetriesAborts(BaseHTTPMiddleware):
    """What the guide's own middleware does: reads the body, then calls next until it is no abort."""

    def __init__(self, app, *, router):
        super().__init__(app)
        router.waiting = asyncio.Event()
        router.cancelled = asyncio.Event()
        self.router = router

    async def dispatch(self, request, call_next):
        if request.url.path != "/generate":
            return await call_next(request)
        payload = await request.json()
        for _ in range(payload.get("attempts", 5)):
            response = await call_next(request)
            assert response.__class__.__name__ == "_StreamingResponse"
            body = b"".join([chunk async for chunk in response.body_iterator])
            if b"abort" not in body:
                break
            if payload.get("wait"):
                self.router.waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.router.cancelled.set()
        return Response(body, response.status_code, dict(response.headers), response.media_type)


async def test_calling_next_again_reaches_a_worker_again_with_the_same_bytes():
    async with scripted_worker(in_turn(ABORTED, ABORTED, DONE)) as worker:
        async with running_gateway(worker.url, **around("RetriesAborts")) as gateway:
            status, told, _ = await gateway.post("/generate", PROMPT)
            assert (status, told["text"]) == (200, " whole")
            assert [request.body for request in worker.requests] == [PROMPT] * 3
            assert gateway.in_flight() == 0


async def test_after_the_last_attempt_its_reply_is_the_reply():
    async with scripted_worker(in_turn(*[ABORTED] * 5)) as worker:
        async with running_gateway(worker.url, **around("RetriesAborts")) as gateway:
            status, told, _ = await gateway.post("/generate", PROMPT)
            assert (status, told["text"], len(worker.requests)) == (200, " par", 5)


async def test_a_client_that_leaves_between_two_attempts_ends_them():
    async with scripted_worker(in_turn(ABORTED)) as worker:
        async with running_gateway(worker.url, **around("RetriesAborts")) as gateway:
            asking = asyncio.create_task(gateway.post("/generate", {"text": "x", "wait": True}))
            router = gateway.gateway.router
            async with asyncio.timeout(10):
                await router.waiting.wait()
                asking.cancel()
                await router.cancelled.wait()
            assert len(worker.requests) == 1


async def test_a_client_that_leaves_is_noticed_at_the_worker_through_a_middleware():
    arrived = asyncio.Event()

    async def think_for_ever(exchange: Exchange) -> None:
        arrived.set()
        await exchange.until_peer_leaves()

    async with scripted_worker(think_for_ever) as worker:
        async with running_gateway(worker.url, **around("Seen", "RetriesAborts", "Marks")) as gateway:
            worker.hung_up.clear()
            asking = asyncio.create_task(gateway.post("/generate", PROMPT))
            async with asyncio.timeout(10):
                await arrived.wait()
                assert gateway.in_flight() == 1
                asking.cancel()
                await worker.hung_up.wait()
            await nobody_in_flight(gateway)
            assert "radixway_client_disconnects_total 1.0" in await prometheus(gateway)


async def test_a_stream_passes_through_as_it_comes():
    got_first = asyncio.Event()

    async def stream(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b'data: {"text": "one"}\n\n')
        await got_first.wait()
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(stream) as worker:
        async with running_gateway(worker.url, **around("Seen", "Marks")) as gateway:
            body = {"text": "x", "stream": True}
            async with gateway.client.post(gateway.url + "/generate", json=body) as response:
                assert await response.content.readuntil(b"\n\n") == b'data: {"text": "one"}\n\n'
                got_first.set()
                assert await response.content.read() == b"data: [DONE]\n\n"
                assert response.headers["x-marked"] == "yes"
            await nobody_in_flight(gateway)


class TiresOfStreams(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        return Response(await anext(response.body_iterator))


async def test_an_answer_that_a_middleware_does_not_read_to_its_end_is_stopped_at_the_worker():
    async def stream_for_ever(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b"data: 1\n\n")
        await exchange.until_peer_leaves()

    async with scripted_worker(stream_for_ever) as worker:
        async with running_gateway(worker.url, **around("TiresOfStreams")) as gateway:
            worker.hung_up.clear()
            body = {"text": "x", "stream": True}
            async with gateway.client.post(gateway.url + "/generate", json=body) as response:
                assert await response.read() == b"data: 1\n\n"
            async with asyncio.timeout(10):
                await worker.hung_up.wait()
            await nobody_in_flight(gateway)


class Replaces(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)

    async def dispatch(self, request, call_next):
        payload = await request.json()
        way = payload.pop("way")
        if way == "_json":
            request._json = {**payload, "text": "replaced"}
        elif way == "_body":
            request._body = b'{"text": "replaced"}'
        else:
            request.replace_body(b'{"text": "replaced"}')
        return await call_next(request)


@pytest.mark.parametrize("way", ["_json", "_body", "replace_body"])
async def test_a_body_that_a_middleware_replaces_is_what_the_worker_gets(way):
    async with scripted_worker() as worker, running_gateway(worker.url, **around("Replaces")) as gateway:
        status, _, _ = await gateway.post("/generate", {"text": "x", "kept": 1, "way": way})
        assert status == 200
        (request,) = worker.requests
        kept = {"kept": 1} if way == "_json" else {}
        assert request.json() == {"text": "replaced", **kept}
        assert int(request.headers["content-length"]) == len(request.body)


class ReadsInPieces(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)

    async def dispatch(self, request, call_next):
        assert b"".join([piece async for piece in request.stream()]) == await request.body()
        response = await call_next(request)
        whole = b"".join([piece async for piece in response.body_iterator])

        async def longer():
            yield whole
            yield b" and more"

        response.body_iterator = longer()
        return response


async def test_an_answer_made_longer_arrives_whole():
    async with scripted_worker(in_turn(b"{}")) as worker:
        async with running_gateway(worker.url, **around("ReadsInPieces")) as gateway:
            async with gateway.client.post(gateway.url + "/generate", data=PROMPT) as response:
                assert await response.read() == b"{} and more"


class Marks:
    """Raw ASGI."""

    def __init__(self, app, *, router):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def mark(message):
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-marked", b"yes"))
            await send(message)

        await self.app(scope, receive, mark)


async def test_a_raw_class_wraps_hot_and_other_paths():
    async with scripted_worker() as worker, running_gateway(worker.url, **around("Marks")) as gateway:
        _, told, headers = await gateway.chat()
        assert (told["odd"], headers["x-marked"]) == (1e-5, "yes")
        async with gateway.client.get(gateway.url + "/health") as response:
            assert response.headers["x-marked"] == "yes"


async def test_a_middleware_of_starlettes_own_that_knows_no_router_serves_too():
    gzipped = around("starlette.middleware.gzip.GZipMiddleware")
    async with scripted_worker(in_turn(b'{"text": "' + b"x" * 2000 + b'"}')) as worker:
        async with running_gateway(worker.url, **gzipped) as gateway:
            headers = {"accept-encoding": "gzip"}
            async with gateway.client.post(
                gateway.url + "/generate", data=PROMPT, headers=headers
            ) as response:
                assert response.headers["content-encoding"] == "gzip"
                assert (await response.json())["text"] == "x" * 2000


class Extends(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)
        router.radix_tree = self
        router.app.add_api_route("/mine", lambda: {"urls": router.list_workers()})

    def get_stats(self):
        return {"total_entries": 3, "hit_rate": 0.5}

    async def dispatch(self, request, call_next):
        if request.headers.get("x-own"):
            return JSONResponse({"own": True}, 418)
        if request.headers.get("x-broken"):
            return {}["no such key"]
        return await call_next(request)


async def test_a_middleware_adds_a_route_answers_itself_and_attaches_a_tree_whose_figures_are_in_metrics():
    async with running_gateway(**around("Extends")) as gateway:
        assert await gateway.get("/mine") == (200, {"urls": []})
        assert await gateway.get("/x", headers={"x-own": "1"}) == (418, {"own": True})
        _, told = await gateway.get("/metrics")
        assert told["cache"] == {"total_entries": 3, "hit_rate": 0.5}


async def test_a_middleware_adds_and_removes_workers_by_url():
    async with scripted_worker() as worker, running_gateway(**around("Seen")) as gateway:
        router = gateway.gateway.router
        router.add_worker(worker.url + "/")
        assert router.list_workers() == [worker.url]
        with pytest.raises(ValueError, match="http"):
            router.add_worker("ftp://x")
        assert router.remove_worker(worker.url + "/")
        assert not router.remove_worker(worker.url)


class KnowsItsWorker(BaseHTTPMiddleware):
    url = ""

    def __init__(self, app, *, router):
        super().__init__(app)
        router.add_worker(self.url)

    async def dispatch(self, request, call_next):
        return await call_next(request)


async def test_a_worker_that_a_middleware_adds_while_it_is_built_serves(monkeypatch):
    async with scripted_worker() as worker:
        monkeypatch.setattr(import_class(f"{__name__}.KnowsItsWorker"), "url", worker.url)
        async with running_gateway(**around("KnowsItsWorker")) as gateway:
            await gateway.until(worker.url, WorkerState.READY)
            assert (await gateway.chat())[0] == 200


class TakesTheFirst(BaseHTTPMiddleware):
    def __init__(self, app, *, router):
        super().__init__(app)

    async def dispatch(self, request, call_next):
        racing = [asyncio.ensure_future(call_next(request)) for _ in range(2)]
        done, late = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        return done.pop().result()


async def test_two_calls_at_a_time_have_answers_of_their_own_and_the_one_left_over_is_stopped():
    async def first_hangs(exchange: Exchange) -> None:
        if len(worker.requests) == 1:
            await exchange.until_peer_leaves()
            hung_up.set()
        else:
            await exchange.reply(200, DONE)

    hung_up = asyncio.Event()
    async with scripted_worker(first_hangs) as worker:
        async with running_gateway(worker.url, **around("TakesTheFirst")) as gateway:
            status, told, _ = await gateway.post("/generate", PROMPT)
            assert (status, told["text"]) == (200, " whole")
            async with asyncio.timeout(10):
                await hung_up.wait()
            assert [request.body for request in worker.requests] == [PROMPT] * 2
            await nobody_in_flight(gateway)


async def test_a_defect_of_a_middleware_is_told_in_the_shape_of_our_errors():
    async with running_gateway(**around("Extends")) as gateway:
        status, told = await gateway.get("/health", headers={"x-broken": "1"})
        assert (status, told["error"]["code"]) == (500, "internal_error")
        assert "KeyError" in told["error"]["message"]


async def test_a_body_that_a_middleware_cannot_read_is_the_clients_mistake():
    async with running_gateway(**around("RetriesAborts", gateway={"max_body_bytes": 4096})) as gateway:
        status, told, _ = await gateway.post("/generate", b'{"text": ')
        assert (status, told["error"]["code"]) == (400, "invalid_json")
        status, told, _ = await gateway.post("/generate", b"x" * 5000)
        assert (status, told["error"]["code"]) == (413, "body_too_large")


async def test_what_the_gateway_refuses_passes_through_a_middleware_as_it_is():
    async with running_gateway(**around("Seen", "Marks")) as gateway:
        status, told, headers = await gateway.post("/generate", PROMPT)
        assert (status, told["error"]["code"], headers["retry-after"]) == (503, "no_workers", "1")


class TakesMore(BaseHTTPMiddleware):
    def __init__(self, app, *, router, more):
        super().__init__(app)


class Neither:
    async def __call__(self, scope, receive, send): ...


class Fails:
    def __init__(self, app, *, router):
        raise OSError("no checkpoint there")

    async def __call__(self, scope, receive, send): ...


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("TakesMore", "cannot be built around the gateway: TypeError: .*'more'"),
        ("Fails", "cannot be built around the gateway: OSError: no checkpoint there"),
        ("Neither", r"takes those, or is Starlette's kind and takes \(app, \*, router\)"),
        ("NoSuchClass", "cannot be loaded"),
    ],
)
def test_a_class_of_neither_kind_is_told_in_a_sentence(name, told):
    with pytest.raises(ConfigError, match=f"pipeline.middlewares: .*{name}.*{told}"):
        Gateway(load_config(overrides=around(name)))


def test_slimes_own_path_names_our_class():
    trajectories = pytest.importorskip("radixway.trajectories")
    if not hasattr(trajectories, "RadixTreeMiddleware"):
        pytest.skip("radixway.trajectories has no RadixTreeMiddleware yet")
    for path in (
        "slime.router.middleware_hub.radix_tree_middleware.RadixTreeMiddleware",
        "slime.router.middleware.RadixTreeMiddleware",
    ):
        assert import_class(path) is trajectories.RadixTreeMiddleware


def test_other_classes_of_slime_are_looked_for_where_they_say():
    with pytest.raises(ConfigError, match="No module named 'slime'"):
        import_class("slime.router.middleware_hub.other.OtherMiddleware")


async def nobody_in_flight(gateway) -> None:
    """The ledger lets go of a request in the turn of the loop in which its task ends: give it turns."""
    async with asyncio.timeout(10):
        while gateway.in_flight():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def prometheus(gateway) -> str:
    async with gateway.client.get(gateway.url + "/metrics/prometheus") as response:
        return await response.text()
