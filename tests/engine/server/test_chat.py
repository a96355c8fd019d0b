"""/v1/chat/completions as the `openai` SDK and plain HTTP clients see it."""

import json
from typing import Any

import openai
import pytest

from support.scripted_engine import ANSWER, GUIDE
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"
HI: list[Any] = [{"role": "user", "content": "hi"}]


async def test_a_whole_answer_has_text_finish_reason_and_usage(served: Served) -> None:
    reply = await served.openai.chat.completions.create(model=MODEL, messages=HI)
    assert reply.choices[0].message.content == ANSWER
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-") and reply.model == MODEL
    assert reply.usage is not None and reply.usage.prompt_tokens_details is not None
    assert reply.usage.completion_tokens == len(served.engine.script) + 1
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens_details.cached_tokens == reply.usage.prompt_tokens // 2
    prompt, params, *_ = served.engine.submitted[0]
    assert served.engine.tokenizer.decode(prompt, skip_special_tokens=False).endswith(
        "<|im_start|>assistant\n"
    )
    assert params.max_tokens is None


async def test_a_stream_gives_the_role_first_and_the_same_text(served: Served) -> None:
    stream = await served.openai.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ANSWER and "�" not in text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(served.engine.script) + 1
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1 and chunks[0].object == "chat.completion.chunk"


async def test_a_stream_without_include_usage_has_none(served: Served) -> None:
    response = await served.chat(stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    assert all("usage" not in json.loads(event) for event in events[:-1])


async def test_n_answers_come_each_with_its_index_and_seed(served: Served) -> None:
    reply = await served.openai.chat.completions.create(model=MODEL, messages=HI, n=3, seed=7)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert {choice.message.content for choice in reply.choices} == {ANSWER}
    assert [params.seed for _, params, *_ in served.engine.submitted] == [7, 8, 9]
    assert reply.usage is not None and reply.usage.completion_tokens == 3 * (len(served.engine.script) + 1)
    assert reply.usage.prompt_tokens == len(served.engine.submitted[0][0])

    stream = await served.openai.chat.completions.create(model=MODEL, messages=HI, n=3, stream=True)
    texts: dict[int, str] = {}
    async for chunk in stream:
        choice = chunk.choices[0]
        texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    assert texts == dict.fromkeys(range(3), ANSWER)


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_name_each_token_with_its_bytes(served: Served, stream: bool) -> None:
    wanted: Any = {"model": MODEL, "messages": HI, "logprobs": True, "top_logprobs": 2}
    if stream:
        chunks = [c async for c in await served.openai.chat.completions.create(**wanted, stream=True)]
        parts = [c.choices[0].logprobs.content for c in chunks if c.choices and c.choices[0].logprobs]
        content = [entry for part in parts for entry in part or []]
    else:
        reply = await served.openai.chat.completions.create(**wanted)
        assert reply.choices[0].logprobs is not None
        content = reply.choices[0].logprobs.content or []
    assert len(content) == len(served.engine.script) + 1
    data = b"".join(bytes(entry.bytes or []) for entry in content)
    assert data.decode() == ANSWER + "<|im_end|>"
    assert content[0].logprob == -0.25 and content[1].logprob == -9999.0
    assert [top.logprob for top in content[0].top_logprobs] == [-0.5, -1.0]


async def test_the_seeds_of_n_answers_count_on(served: Served) -> None:
    await served.openai.chat.completions.create(model=MODEL, messages=HI, n=3, seed=-3)
    assert [params.seed for _, params, *_ in served.engine.submitted] == [-3, 2**64 - 2, 2**64 - 1]


async def test_every_sampling_field_reaches_the_engine(served: Served) -> None:
    extra = {
        "top_k": 5,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "min_tokens": 2,
        "ignore_eos": True,
        "stop_token_ids": [7],
        "skip_special_tokens": False,
        "include_stop_str_in_output": True,
        "cache_salt": "tenant-1",
        "priority": 3,
        "no_such_field": {"is": "ignored"},
    }
    await served.openai.chat.completions.create(
        model=MODEL,
        messages=HI,
        temperature=0,
        top_p=0.5,
        max_completion_tokens=4,
        frequency_penalty=0.1,
        presence_penalty=-0.2,
        logit_bias={"11": -5},
        stop=["a stop"],
        seed=3,
        extra_body=extra,
    )
    _, params, namespace, priority = served.engine.submitted[0]
    assert (params.temperature, params.top_p, params.max_tokens, params.seed) == (0, 0.5, 4, 3)
    assert (params.top_k, params.min_p, params.repetition_penalty, params.min_tokens) == (5, 0.1, 1.1, 2)
    assert (params.frequency_penalty, params.presence_penalty) == (0.1, -0.2)
    assert (params.stop, params.stop_token_ids, params.logit_bias) == (("a stop",), {7}, {11: -5})
    assert params.ignore_eos and params.include_stop and not params.skip_special_tokens
    assert (namespace, priority) == ("tenant-1", 3)


async def test_what_is_not_said_is_what_the_models_authors_recommend(served: Served) -> None:
    recommended = json.loads((GUIDE / "generation_config.json").read_bytes())
    await served.chat()
    _, params, *_ = served.engine.submitted[0]
    assert params.temperature == recommended.get("temperature", 1.0)
    assert params.top_p == recommended.get("top_p", 1.0)


async def test_a_stop_string_is_cut_and_named(served: Served) -> None:
    reply = (await served.chat(stop=["42", "zzz"])).json()["choices"][0]
    assert (reply["message"]["content"], reply["finish_reason"]) == ("The answer is ", "stop")
    assert reply["stop_reason"] == "42"
    stream = await served.openai.chat.completions.create(model=MODEL, messages=HI, stop="42", stream=True)
    assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "The answer is "


async def test_reaching_max_tokens_ends_by_length(served: Served) -> None:
    reply = await served.openai.chat.completions.create(model=MODEL, messages=HI, max_tokens=2)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None and reply.usage.completion_tokens == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_token_ids_come_back_when_asked_for(served: Served, stream: bool) -> None:
    if stream:
        response = await served.chat(return_token_ids=True, stream=True)
        events = [json.loads(e.removeprefix("data: ")) for e in response.text.split("\n\n")[:-2]]
        prompt = events[0]["prompt_token_ids"]
        ids = [i for event in events for choice in event["choices"] for i in choice.get("token_ids", [])]
        assert all("prompt_token_ids" not in event for event in events[1:])
    else:
        reply = (await served.chat(return_token_ids=True)).json()
        prompt, ids = reply["prompt_token_ids"], reply["choices"][0]["token_ids"]
    assert prompt == served.engine.submitted[0][0]
    assert ids == [*served.engine.script, served.engine.eos]


async def test_tools_and_template_arguments_reach_the_template(served: Served) -> None:
    tool = {"type": "function", "function": {"name": "wetter", "parameters": {"type": "object"}}}
    call = {"id": "1", "type": "function", "function": {"name": "wetter", "arguments": '{"city": "Köln"}'}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]},
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": "1"},
    ]
    response = await served.chat(
        messages=messages, tools=[tool], chat_template_kwargs={"enable_thinking": False}
    )
    assert response.status_code == 200
    prompt = served.engine.tokenizer.decode(served.engine.submitted[0][0], skip_special_tokens=False)
    assert '"name": "wetter"' in prompt and '"city": "Köln"' in prompt and "sunny" in prompt


async def test_a_continued_message_is_the_end_of_the_prompt(served: Served) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello, I"}]
    response = await served.chat(messages=messages, continue_final_message=True)
    assert response.status_code == 200
    prompt = served.engine.tokenizer.decode(served.engine.submitted[0][0], skip_special_tokens=False)
    assert prompt.endswith("Hello, I")


async def test_the_request_id_is_the_clients_or_a_fresh_one(served: Served) -> None:
    response = await served.post("/v1/chat/completions", {"messages": HI}, **{"x-request-id": "abc-1"})
    assert response.headers["x-request-id"] == "abc-1" and response.json()["id"] == "chatcmpl-abc-1"
    fresh = {(await served.chat()).headers["x-request-id"] for _ in range(2)}
    assert len(fresh) == 2


async def test_errors_are_the_sdks_exceptions(served: Served) -> None:
    create = served.openai.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        await create(model="gpt-5", messages=HI)
    assert missing.value.code == "model_not_found" and missing.value.param == "model"
    with pytest.raises(openai.BadRequestError) as long:
        await create(model=MODEL, messages=[{"role": "user", "content": "hello " * 500}])
    assert long.value.code == "context_length_exceeded" and long.value.param == "messages"
    assert "256" in long.value.message
    with pytest.raises(openai.BadRequestError) as negative:
        await create(model=MODEL, messages=HI, max_tokens=-1)
    assert negative.value.param == "max_tokens"
    served.engine.room = 0
    with pytest.raises(openai.RateLimitError):
        await create(model=MODEL, messages=HI)


async def test_an_engine_that_fails_is_a_503_before_the_first_byte_and_an_error_event_after(
    served: Served,
) -> None:
    served.engine.fails_after = 0
    with pytest.raises(openai.InternalServerError, match="caught fire"):
        await served.openai.chat.completions.create(model=MODEL, messages=HI, stream=True)
    served.engine.fails_after = 2
    with pytest.raises(openai.APIError, match="caught fire"):
        async for _ in await served.openai.chat.completions.create(model=MODEL, messages=HI, stream=True):
            pass
    assert not served.engine.running


async def test_a_batch_that_does_not_fit_the_queue_leaves_nothing_running(served: Served) -> None:
    served.engine.room = 2
    with pytest.raises(openai.RateLimitError):
        await served.openai.chat.completions.create(model=MODEL, messages=HI, n=3)
    assert not served.engine.running and served.engine.aborted.qsize() == 2
