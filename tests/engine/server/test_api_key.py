"""An engine that needs a key, as vLLM and SGLang have it."""

from collections.abc import AsyncIterator

import anthropic
import pytest
import pytest_asyncio

from radixway.engine.server import build_app
from radixway.engine.server.app import _ROUTES
from support.running_gateway import running_gateway
from support.scripted_engine import ScriptedEngine
from support.server_served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = {"authorization": "Bearer hush"}


@pytest_asyncio.fixture(loop_scope="session")
async def locked() -> AsyncIterator[Served]:
    engine = ScriptedEngine()
    config = engine.config.model_copy(update={"api_key": type(engine.config)(api_key="hush").api_key})
    async with serving(build_app(engine, engine.tokenizer, config)) as served:
        yield served


async def test_everything_but_what_probes_and_scrapers_ask_needs_it(locked):
    open_paths = []
    for path, methods in _ROUTES.items():
        for method in methods:
            answer = await locked.http.request(method, path, content=b"")
            if answer.status_code != 401:
                open_paths.append(path)
            else:
                if path == "/generate_stream":
                    assert answer.json()["error_type"] == "validation"
                elif path.startswith("/v1/messages"):
                    assert answer.json()["error"]["type"] == "authentication_error"
                else:
                    assert method == "HEAD" or answer.json()["error"]["code"] == "invalid_api_key"
    assert set(open_paths) == {"/health", "/ping", "/ready", "/metrics"}


@pytest.mark.parametrize(
    "given", ["Bearer wrong", "Bearer", "hush", "Basic hush", "Bearer hush2", "Bearer ключ"]
)
async def test_no_other_key_will_do(locked, given):
    headers = {"authorization": given.encode()}
    assert (await locked.http.get("/server_info", headers=headers)).status_code == 401


async def test_anthropics_clients_give_it_as_they_do(locked):
    async with anthropic.AsyncAnthropic(base_url=locked.url, api_key="hush", max_retries=0) as client:
        asked = {"model": "radixway-guide", "messages": [{"role": "user", "content": "hi"}]}
        assert (await client.messages.count_tokens(**asked)).input_tokens > 0
        with pytest.raises(anthropic.AuthenticationError):
            await client.with_options(api_key="wrong").messages.count_tokens(**asked)


async def test_with_it_the_engine_answers_under_any_name(locked):
    for more in ({}, {"host": "engine.example"}):
        assert (await locked.http.get("/server_info", headers=KEY | more)).status_code == 200
    assert (await locked.http.post("/flush_cache", headers=KEY)).status_code == 200


async def test_a_gateway_that_is_told_the_key_asks_with_it(locked):
    workers = [{"url": locked.url, "api_key": "hush"}]
    async with running_gateway(workers=workers) as gateway:
        await gateway.until(locked.url, gateway.gateway.registry.get_worker(locked.url).state.READY)
        status, told, _ = await gateway.post("/flush_cache", {})
        assert status == 200 and told["success"]


async def test_after_many_wrong_keys_another_is_too_many_and_the_right_one_works(locked):
    wrong = {"authorization": "Bearer wrong"}
    statuses = [(await locked.http.get("/server_info", headers=wrong)).status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    assert "retry-after" in (await locked.http.get("/server_info", headers=wrong)).headers
    assert (await locked.http.get("/server_info")).status_code == 401
    assert (await locked.http.get("/server_info", headers=KEY)).status_code == 200
