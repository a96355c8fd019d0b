"""An endpoint cannot be served unread: by its declaration, at the gateway's start, and on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from radixway.core.config import ConfigError
from radixway.core.pipeline import ENDPOINTS, Endpoint, ReplyForm
from radixway.core.pipeline.endpoints.base import EndpointRegistry, ParsedRequest, RequestBody
from support.guarded import ATTACK, EMAIL, guarded
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

BLOCKS = {"jailbreak": {"action": "block"}, "pii": {"action": "block"}}


class NewBody(RequestBody, kw_only=True):
    verse: str | None = None

    def parse(self) -> ParsedRequest:
        return ParsedRequest(self.model)


def declare(**fields: object) -> Endpoint:
    given: dict[str, object] = {
        "path": "/v1/verses",
        "name": "test.verses",
        "description": "What nobody has thought of yet.",
        "body": NewBody,
        "text_fields": ("verse",),
        "reply_form": ReplyForm.COMPLETION,
    }
    return Endpoint(**given | fields)  # type: ignore[arg-type]


@pytest.fixture
def new_endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    endpoint = declare(**getattr(request, "param", {}))
    ENDPOINTS.add(endpoint)
    yield endpoint
    ENDPOINTS.remove(endpoint)


async def test_a_new_endpoint_is_guarded_without_another_word(monkeypatch, new_endpoint) -> None:
    async with scripted_worker() as worker, guarded(monkeypatch, worker.url, guard=BLOCKS) as gateway:
        for text, kind in ((ATTACK, b"x-vsr-jailbreak-blocked"), (f"To {EMAIL}", b"x-vsr-pii-violation")):
            status, told, headers = await gateway.post(new_endpoint.path, {"model": "m", "verse": text})
            assert (status, worker.requests) == (200, []) and headers[kind.decode()] == "true"
            assert told["choices"][0]["finish_reason"] == "content_filter"
        status, _, _ = await gateway.post(new_endpoint.path, {"model": "m", "verse": "Roses are red"})
        assert status == 200 and worker.requests[0].path == new_endpoint.path


@pytest.mark.parametrize("new_endpoint", [{"guarded": False, "exempt_reason": "a test"}], indirect=True)
async def test_an_exempt_endpoint_is_not_read(monkeypatch, new_endpoint) -> None:
    async with scripted_worker() as worker, guarded(monkeypatch, worker.url, guard=BLOCKS) as gateway:
        status, _, _ = await gateway.post(new_endpoint.path, {"model": "m", "verse": ATTACK})
        assert status == 200 and len(worker.requests) == 1 and gateway.judge.asked == []


async def test_rules_that_block_read_a_new_endpoint_too(monkeypatch, new_endpoint) -> None:
    rules = {"regex_rules": [{"name": "sea", "pattern": "whale", "action": "block"}]}
    async with scripted_worker() as worker, running_gateway(worker.url, semantic=rules) as gateway:
        aside = {"messages": [{"role": "user", "content": "hello"}], "prompt": "hello"}
        for body in ({"verse": "Call me a whale"}, {"verse": "Call me a whale"} | aside):
            status, told, _ = await gateway.post(new_endpoint.path, {"model": "m"} | body)
            assert (status, told["error"]["code"], worker.requests) == (403, "blocked_by_rule", [])
        others = {"/v1/completions": "prompt", "/generate": "text", "/v1/embeddings": "input"}
        for path, field in others.items():
            body = {"model": "m", "messages": aside["messages"], field: "Call me a whale"}
            status, _, _ = await gateway.post(path, body)
            assert (status, worker.requests) == (403, []), path


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"guarded": False}, "neither guarded nor exempt"),
        ({"guarded": False, "exempt_reason": "  "}, "neither guarded nor exempt"),
        ({"exempt_reason": "why not"}, "exempt_reason has no meaning"),
        ({"text_fields": ()}, "text_fields is empty"),
    ],
)
def test_a_declaration_that_says_neither_is_none(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=f"endpoint test.verses: .*{told}"):
        declare(**fields)


@pytest.mark.parametrize(
    "new_endpoint", [{"text_fields": ("verse", "metadata")}, {"reply_form": ReplyForm.TGI}], indirect=True
)
async def test_no_gateway_starts_with_one_that_its_guard_cannot_read(monkeypatch, new_endpoint) -> None:
    with pytest.raises(ConfigError, match=r"endpoint test\.verses: the guard"):
        async with guarded(monkeypatch, guard=BLOCKS):
            pass


def test_names_and_paths_are_taken_once() -> None:
    registry = EndpointRegistry([declare()])
    for again in (
        declare(path="/v2/verses"),
        declare(name="other"),
        declare(name="x", aliases=("/v1/verses",)),
    ):
        with pytest.raises(ConfigError, match=r"is test\.verses's"):
            registry.add(again)


def test_every_endpoint_of_ours_is_guarded() -> None:
    assert [endpoint.name for endpoint in ENDPOINTS if not endpoint.guarded] == []


@dataclass
class Step:
    calls: list[str]

    def applies_to(self, endpoint: Endpoint) -> bool:
        self.calls.append(endpoint.name)
        return True

    async def __call__(self, request, call_next):
        return await call_next(request)


async def test_chains_are_made_at_the_start_and_never_again(monkeypatch) -> None:
    from radixway.gateway import inference_routes

    calls: list[str] = []
    original = inference_routes.Pipeline.__init__
    monkeypatch.setattr(
        inference_routes.Pipeline,
        "__init__",
        lambda self, middlewares, *more: original(self, [Step(calls), *middlewares], *more),
    )

    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b'{"choices": []}')

    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        assert {endpoint.name for endpoint in ENDPOINTS} <= {*calls}
        before = len(calls)
        await gateway.chat()
        await gateway.post("/v1/completions", {"model": "m", "prompt": "a"})
        assert len(calls) == before
