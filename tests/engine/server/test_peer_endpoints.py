"""Endpoints and limits that clients of vLLM and SGLang know: /v1/score, /invocations, `max_logprobs`."""

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from radixway.core.config.engine import EngineConfig
from radixway.engine.server import build_app
from support.scripted_engine import ANSWER, ScriptedEngine
from support.server_served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SCORE = "/v1/score"
QUERY, ITEMS = "The capital of France is", [" Paris", " London", " a city"]


async def scores(guide: Served, **fields: Any) -> dict[str, Any]:
    response = await guide.post(SCORE, {"query": QUERY, "items": ITEMS, **fields})
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


async def test_items_are_scored_by_the_token_that_would_come_next(guide: Served) -> None:
    labels = [5, 300, 17]
    reply = await scores(guide, label_token_ids=labels, return_token_logprobs=True)
    tokens = 0
    for item, told, logprobs in zip(ITEMS, reply["scores"], reply["token_logprobs"], strict=True):
        body = {"prompt": QUERY + item, "max_tokens": 1, "logprobs": 1, "logprob_token_ids": labels}
        whole = (await guide.post(COMPLETIONS, {**body, "return_tokens_as_token_ids": True})).json()
        named = whole["choices"][0]["logprobs"]["top_logprobs"][0]
        assert logprobs == pytest.approx([named[f"token_id:{label}"] for label in labels], rel=1e-3)
        assert told == pytest.approx([math.exp(each) for each in logprobs])
        tokens += whole["usage"]["prompt_tokens"]
    assert reply["usage"] == {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
    assert reply["object"] == "scoring"


async def test_scores_are_shares_of_the_labels_where_that_is_asked(guide: Served) -> None:
    labels = [[5, 300], [17, 4], [9, 8]]  # of each item
    plain = await scores(guide, label_token_ids=labels)
    shares = (await scores(guide, label_token_ids=labels, apply_softmax=True))["scores"]
    flat = (await scores(guide, label_token_ids=labels, apply_softmax=True, temperature=1e9))["scores"]
    for each, share, even in zip(plain["scores"], shares, flat, strict=True):
        assert share == pytest.approx([one / sum(each) for one in each], rel=1e-3)
        assert even == pytest.approx([0.5, 0.5])


async def test_tokens_are_scored_as_their_text_is_and_items_may_come_first(guide: Served) -> None:
    encode = guide.app.service.tokenizer.encode
    ids = {"query": encode(QUERY), "items": [encode(item) for item in ITEMS], "label_token_ids": [5, 6]}
    for told, text in zip(
        (await scores(guide, **ids))["scores"],
        (await scores(guide, label_token_ids=[5, 6]))["scores"],
        strict=True,
    ):
        assert told == pytest.approx(text, rel=1e-3)
    swapped = {"query": ITEMS[0], "items": QUERY, "label_token_ids": [5, 6], "item_first": True}
    (first,) = (await scores(guide, **swapped))["scores"]
    (second,) = (await scores(guide, items=ITEMS[0], label_token_ids=[5, 6]))["scores"]
    assert first == pytest.approx(second, rel=1e-3)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"items": None}, "items"),
        ({"items": []}, "items"),
        ({"items": [[1], "a"]}, "items"),
        ({"query": [1]}, "items"),
        ({"label_token_ids": None}, "label_token_ids"),
        ({"label_token_ids": [[1], [2]]}, "label_token_ids"),
        ({"label_token_ids": [[1], 2]}, "label_token_ids"),
        ({"label_token_ids": [*range(101)]}, "label_token_ids"),
        ({"temperature": 2.0}, "temperature"),
        ({"temperature": 0, "apply_softmax": True}, "temperature"),
        ({"return_pooled_hidden_states": True}, "return_pooled_hidden_states"),
    ],
)
async def test_what_cannot_be_scored_names_its_field(
    guide: Served, fields: dict[str, Any], param: str
) -> None:
    body = {"query": QUERY, "items": ITEMS, "label_token_ids": [5], **fields}
    response = await guide.post(SCORE, body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param), response.text


async def test_errors_of_scores_have_sglangs_fields_too(guide: Served) -> None:
    response = await guide.post(SCORE, {"query": QUERY, "items": ITEMS, "label_token_ids": [999_999]})
    error = response.json()
    assert (response.status_code, error["type"], error["code"]) == (400, "BadRequestError", 400)
    assert "Token ID 999999 is out of vocabulary" in error["message"] == error["error"]["message"]


async def test_invocations_are_chats_or_completions(served: Served) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    for path, body in ((CHAT, chat), (COMPLETIONS, {"prompt": "hi", "max_tokens": 50})):
        direct, invoked = [(await served.post(each, body)).json() for each in (path, "/invocations")]
        assert direct.keys() == invoked.keys() and direct["choices"] == invoked["choices"]
        assert direct["object"] == invoked["object"]
    text = (await served.post("/invocations", {**chat, "stream": True})).text
    assert text.endswith("data: [DONE]\n\n")
    for body in ({"input": "hi"}, {}):
        response = await served.post("/invocations", body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "messages")


async def test_a_completion_without_a_prompt_says_so(served: Served) -> None:
    for body in ({}, {"prompt": None, "prompt_embeds": []}):
        response = await served.post(COMPLETIONS, body)
        error = response.json()["error"]
        assert (response.status_code, error["param"], error["code"]) == (400, "prompt", "missing_field")
        assert "Either prompt or prompt_embeds must be provided and non-empty." in error["message"]


@pytest_asyncio.fixture(loop_scope="session")
async def open_served() -> AsyncIterator[Served]:
    """A server that tells the log-probabilities of all tokens to whom asks for them."""
    engine = ScriptedEngine()
    async with serving(build_app(engine, engine.tokenizer, EngineConfig(max_logprobs=-1))) as served:
        yield served


async def test_all_logprobs_are_told_where_the_operator_allows_it(open_served: Served) -> None:
    size = open_served.engine.model_info.vocab_size
    reply = (await open_served.chat(logprobs="true", top_logprobs=-1, prompt_logprobs=-1)).json()
    params = open_served.engine.submitted[0][1]
    assert (params.logprobs, params.prompt_logprobs) == (size, size)
    assert len(reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == size
    assert reply["choices"][0]["message"]["content"] == ANSWER
    assert (await open_served.post(COMPLETIONS, {"prompt": "x", "logprobs": size + 1})).status_code == 400


async def test_the_operators_limit_of_logprobs_holds(served: Served) -> None:
    for path, fields in ((CHAT, {"logprobs": True, "top_logprobs": -1}), (COMPLETIONS, {"logprobs": -1})):
        body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "x", **fields}
        error = (await served.post(path, body)).json()["error"]
        assert error["param"] == [*fields][-1] and "between 0 and 20" in error["message"]
