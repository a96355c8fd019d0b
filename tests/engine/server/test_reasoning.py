"""Reasoning as SGLang's clients see it, counted and in one piece, and other things that they ask for."""

import json
from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

REASONED = "<think>\nWarm, I guess.\n</think>\n\nSunny."
USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def events_of(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def reasoning_tokens(thinks: Served) -> int:
    """The tokens of the script to the end of its reasoning."""
    closes: int = thinks.engine.script.index(thinks.engine.tokenizer.backend.token_to_id("</think>"))
    return closes + 1


async def test_a_chats_usage_counts_its_reasoning(thinks: Served) -> None:
    thinks.engine.say(REASONED)
    tokens = reasoning_tokens(thinks)
    usage = (await thinks.chat(n=2)).json()["usage"]
    assert usage["reasoning_tokens"] == usage["completion_tokens_details"]["reasoning_tokens"] == 2 * tokens
    usage = (await thinks.chat(chat_template_kwargs={"enable_thinking": False})).json()["usage"]
    assert usage["reasoning_tokens"] == 0 and "completion_tokens_details" not in usage


async def test_the_usage_of_each_chunk_counts_the_reasoning_so_far(thinks: Served) -> None:
    thinks.engine.say(REASONED)
    events = events_of((await thinks.chat(stream=True, **USAGE)).text)
    counts = [event["usage"]["reasoning_tokens"] for event in events]
    assert counts[0] is None  # nothing of the answer is in the first chunk
    assert counts[1:] == sorted(counts[1:]) and counts[1] > 0 and counts[-1] == reasoning_tokens(thinks)


@pytest.mark.parametrize("stream", [False, True])
async def test_generate_counts_reasoning_where_it_is_told_of_some(thinks: Served, stream: bool) -> None:
    thinks.engine.say(REASONED)
    tokens = reasoning_tokens(thinks)
    for required, count in ((True, tokens), (False, 0)):
        body = {"text": "<|im_start|>assistant\n", "require_reasoning": required, "stream": stream}
        response = await thinks.post("/generate", body)
        replies = events_of(response.text) if stream else [response.json()]
        assert replies[-1]["meta_info"]["reasoning_tokens"] == count
        for reply in replies:
            assert reply["meta_info"]["reasoning_tokens"] == min(count, len(reply["output_ids"]))


async def test_a_constraint_of_generate_binds_what_follows_the_reasoning(thinks: Served) -> None:
    thinks.engine.reset()
    for required in (True, False):
        body = {"text": "hi", "sampling_params": {"regex": "yes"}, "require_reasoning": required}
        assert (await thinks.post("/generate", body)).status_code == 200
    kinds = [type(params.grammar).__name__ for _, params, *_ in thinks.engine.submitted]
    assert kinds == ["ReasonerGrammar", "CompiledGrammar"]


async def test_a_stream_gives_its_reasoning_in_one_chunk(thinks: Served) -> None:
    for text, thought, said in ((REASONED, "Warm, I guess.", "Sunny."), ("<think>\nWarm", "Warm", "")):
        thinks.engine.say(text)
        response = await thinks.chat(stream=True, stream_reasoning=False)
        deltas = [event["choices"][0]["delta"] for event in events_of(response.text)]
        assert [each["reasoning_content"] for each in deltas if each["reasoning_content"]] == [thought]
        assert "".join(each.get("content") or "" for each in deltas) == said


async def test_a_stop_token_beyond_the_vocabulary_is_taken_as_sglang_does(served: Served) -> None:
    sampling = {"stop_token_ids": [7, 10**9]}
    assert (await served.post("/generate", {"text": "hi", "sampling_params": sampling})).status_code == 200
    assert served.engine.submitted[0][1].stop_token_ids == {7}


async def test_a_model_with_an_adapter_is_refused_by_that(served: Served) -> None:
    response = await served.chat(model="radixway-guide:mine")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "model")
    assert "LoRA is not enabled" in response.json()["error"]["message"]
    error = (await served.chat(model="other:mine")).json()["error"]
    assert error["code"] == "model_not_found" and "does not exist" in error["message"]


async def test_an_answer_longer_than_the_context_is_refused_under_openais_name(served: Served) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        response = await served.chat(**{name: 257})
        assert (response.status_code, response.json()["error"]["param"]) == (400, name)
        assert "max_completion_tokens is too large: 257" in response.json()["error"]["message"]


async def test_a_role_that_a_template_may_know_is_rendered(thinks: Served) -> None:
    message: dict[str, Any] = {"role": "my-custom-role", "content": "hi"}
    parts: dict[str, Any] = {**message, "content": [{"type": "text", "text": "hi"}]}
    thinks.engine.reset()
    for asked in (message, parts):
        assert (await thinks.chat(messages=[asked])).status_code == 200
    first, second = (ids for ids, *_ in thinks.engine.submitted)
    assert first == second
    assert "my-custom-role" in thinks.engine.tokenizer.decode(first, skip_special_tokens=False)
