"""The live page, driven by Textual's pilot against a live gateway."""

import json
from itertools import groupby

import pytest

from radixway.cli.top.gateway_view import GatewayReader
from radixway.cli.top.screen import ConfirmScreen, TextScreen, TopApp
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

NEVER_S = 3600
"""The page looks when it is told to."""


async def answer(exchange: Exchange) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 12}}
    pieces = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in ("hello", " you")]
    await exchange.begin_stream()
    for piece in [*pieces, {"choices": [], "usage": usage}]:
        await exchange.chunk(b"data: " + json.dumps(piece).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


async def ask(gateway, model: str = "m", **headers: str) -> None:
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    async with gateway.client.post(
        gateway.url + "/v1/chat/completions", json=body, headers=headers
    ) as response:
        await response.read()


async def finished(app: TopApp, pilot) -> None:
    """What a key began is over, and drawn."""
    await pilot.pause()
    begun = [worker for worker in app.workers if worker is not app.following]
    if begun:
        await app.workers.wait_for_complete(begun)
    await pilot.pause()


def words(app: TopApp) -> str:
    """What the terminal shows."""
    return "\n".join(
        "".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()
    )


async def test_the_page_shows_figures_workers_and_requests_in_a_small_terminal():
    async with scripted_worker(answer) as a, scripted_worker(answer) as b:
        async with running_gateway(a.url, b.url) as gateway:
            app = TopApp(GatewayReader(gateway.url), NEVER_S)
            async with app.run_test(size=(80, 24)) as pilot:
                await finished(app, pilot)
                await ask(gateway)
                await ask(gateway, "nobody serves this")
                await app.poll_gateway()
                await app.poll_gateway()
                await pilot.pause()
                shown = words(app)
                assert "2 of 2 workers ready" in shown
                assert "requests/s" in shown and "in flight / queued" in shown
                for worker in (a, b):
                    assert worker.url.removeprefix("http://") in shown
                assert "20/12/2" in shown
                assert "/ 60%" in shown  # of prompts' tokens, the workers had cached
                assert app.view.figures.first_token_p50_s is not None
                assert "404" in shown and "model_n" in shown
                assert "q Quit" in shown and "d Drain" in shown
                assert len(shown.splitlines()) == 24
                assert {len(line) for line in shown.splitlines()} == {80}


async def test_a_worker_is_drained_after_a_yes_and_brought_back():
    async with scripted_worker(answer) as a, scripted_worker(answer) as b:
        async with running_gateway(a.url, b.url) as gateway:
            app = TopApp(GatewayReader(gateway.url), NEVER_S)
            async with app.run_test(size=(80, 24)) as pilot:
                await app.poll_gateway()
                await pilot.press("down", "d", "n")
                assert {worker.state for worker in gateway.gateway.registry} == {WorkerState.READY}
                await pilot.press("d")
                assert isinstance(app.screen, ConfirmScreen)
                await pilot.press("y")
                await finished(app, pilot)
                second = sorted((a, b), key=lambda worker: worker.url)[1]
                assert gateway.gateway.registry.get_worker(second.url).state is WorkerState.DRAINING
                assert "draining" in words(app)
                await pilot.press("d", "y")
                await finished(app, pilot)
                await gateway.until(second.url, WorkerState.READY)


async def test_words_filter_workers_and_requests_and_escape_shows_all():
    async with scripted_worker(answer) as a, scripted_worker(answer, models=["other"]) as b:
        async with running_gateway(a.url, b.url) as gateway:
            await ask(gateway, "m", **{"x-request-id": "first-one"})
            await ask(gateway, "other")
            app = TopApp(GatewayReader(gateway.url), NEVER_S)
            async with app.run_test(size=(100, 30)) as pilot:
                await app.poll_gateway()
                await pilot.press("slash", *"OTHER", "enter")
                assert [worker.url for worker in app.view.filter_workers("other")] == [b.url]
                shown = words(app)
                assert b.url.removeprefix("http://") in shown
                assert a.url.removeprefix("http://") not in shown
                assert "Latest requests: 1" in shown
                await pilot.press("slash", *"q", "escape")  # no key of the page while words are typed
                await pilot.pause()
                assert a.url.removeprefix("http://") in words(app)


async def test_enter_explains_a_request():
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        await ask(gateway, **{"x-request-id": "a/b [red]c"})
        app = TopApp(GatewayReader(gateway.url), NEVER_S)
        async with app.run_test(size=(80, 40)) as pilot:
            await app.poll_gateway()
            await pilot.press("tab", "enter")
            await finished(app, pilot)
            assert isinstance(app.screen, TextScreen)
            shown = words(app)
            assert "request_id: a/b [red]c" in shown
            assert "step: receive" in shown
            await pilot.press("escape")
            assert not isinstance(app.screen, TextScreen)


@pytest.mark.parametrize("before", [(), ("slash",), ("tab", "enter")])
async def test_an_interrupt_ends_it_wherever_one_is(before):
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        await ask(gateway)
        app = TopApp(GatewayReader(gateway.url), NEVER_S)
        async with app.run_test(size=(80, 40)) as pilot:
            await app.poll_gateway()
            await pilot.press(*before)
            await finished(app, pilot)
            assert app.return_code is None
            await pilot.press("ctrl+c")
            assert app.return_code == 0


async def test_a_gateway_that_goes_away_and_comes_back_is_shown(free_port):
    app = TopApp(GatewayReader(f"http://127.0.0.1:{free_port}"), NEVER_S)
    async with scripted_worker(answer) as worker, app.run_test(size=(120, 24)) as pilot:
        for _ in range(2):
            await app.poll_gateway()
            await pilot.pause()
            assert "away: no gateway answers" in words(app)
            async with running_gateway(worker.url, port=free_port):
                await app.poll_gateway()
                await app.poll_gateway()
                await pilot.pause()
                assert "1 of 1 workers ready" in words(app)
                assert "away" not in words(app)
                assert worker.url.removeprefix("http://") in words(app)
    gaps = [past is None for past in app.view.past]
    assert [gap for gap, _ in groupby(gaps)] == [True, False, True, False]


async def test_a_page_that_is_paused_looks_no_more_until_it_goes_on():
    async with running_gateway() as gateway:
        app = TopApp(GatewayReader(gateway.url), 0.01)
        async with app.run_test() as pilot:
            await pilot.press("p")
            assert app.paused and "PAUSED" in words(app)
            looks = len(app.view.past)
            for _ in range(20):
                await gateway.get("/health")
            await pilot.pause()
            assert len(app.view.past) <= looks + 1  # one may have been on its way
            await pilot.press("p")
            assert "PAUSED" not in words(app)
            await pilot.press("q")
        assert not app.is_running


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_what_needs_a_key_is_named(key):
    scraper = {"key": "scrapers-key-0123456789", "scopes": ["metrics"]}
    tenants = {"t": {"keys": [{"key": "tenants-key-0123456789"}, scraper]}}
    async with scripted_worker(answer) as worker:
        async with running_gateway(
            worker.url, gateway={"admin_key": "the-admin-key-0123456789"}, tenants=tenants
        ) as gateway:
            app = TopApp(GatewayReader(gateway.url, key), NEVER_S)
            async with app.run_test(size=(120, 24)) as pilot:
                await app.poll_gateway()
                await pilot.pause()
                assert "its metrics need a key: --key" in words(app)
            part = TopApp(GatewayReader(gateway.url, scraper["key"]), NEVER_S)
            async with part.run_test(size=(120, 24)) as pilot:
                await part.poll_gateway()
                await part.poll_gateway()
                await pilot.pause()
                assert "1 of 1 workers ready" in words(part)
                assert "Latest requests: not shown" in words(part)
            opened = TopApp(GatewayReader(gateway.url, "the-admin-key-0123456789"), NEVER_S)
            async with opened.run_test(size=(120, 24)) as pilot:
                await opened.poll_gateway()
                await pilot.pause()
                assert "Workers: 1" in words(opened)
                assert "Latest requests: 0" in words(opened)
