"""SGLang's cases of models that think: `enable_thinking`, `separate_reasoning` and counted thinking."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
KIT = "python/sglang/test/kits/reasoning_kit.py"
ENABLED = "test/registered/openai_server/features/test_enable_thinking.py"
USAGE = "test/registered/openai_server/features/test_usage_tokens.py"
SUM = [{"role": "user", "content": "What is 1+3?"}]
HELLO = [{"role": "user", "content": "Hello"}]
TWO = "What is 2 + 2? Return only the final answer."


@pytest.fixture
async def http(start_engine):
    async with httpx.AsyncClient(base_url=start_engine(thinking=True), timeout=120) as client:
        yield client


@pytest.fixture
async def client(start_engine):
    url = f"{start_engine(thinking=True)}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def prompt() -> tuple[str, int]:
    """The prompt of `SUM`, and the token that ends a thought."""
    import transformers

    from support.tutored_model import tutored_model

    tokenizer = transformers.AutoTokenizer.from_pretrained(tutored_model(thinking=True))
    text = tokenizer.apply_chat_template(SUM, add_generation_prompt=True, tokenize=False)
    return text, tokenizer.convert_tokens_to_ids("</think>")


async def post(http: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    response = await http.post(path, json={"model": MODEL} | fields)
    assert response.status_code == 200, response.text
    return response


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def usage_of(http: httpx.AsyncClient, thinking: bool, stream: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "messages": SUM,
        "max_tokens": 1024,
        "chat_template_kwargs": {"enable_thinking": thinking},
    }
    if not stream:
        return (await post(http, "/v1/chat/completions", **fields)).json()["usage"]
    fields |= {"stream": True, "stream_options": {"include_usage": True}}
    events = events_of(await post(http, "/v1/chat/completions", **fields))
    return [event["usage"] for event in events if event.get("usage")][-1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("thinking", [True, False])
@ported(KIT, "ReasoningTokenUsageMixin.test_reasoning_tokens")
async def test_thinking_is_counted(http: httpx.AsyncClient, thinking: bool, stream: bool):
    usage = await usage_of(http, thinking, stream)
    if thinking:
        assert 0 < usage["reasoning_tokens"] < usage["completion_tokens"]
    else:
        assert usage["reasoning_tokens"] == 0


async def generated(http: httpx.AsyncClient, text: str, **fields: Any) -> httpx.Response:
    sampling = {"max_new_tokens": 1024}
    return await post(
        http, "/generate", text=text, sampling_params=sampling, require_reasoning=True, **fields
    )


@ported(KIT, "ReasoningTokenUsageMixin.test_reasoning_tokens_generate_exact_count")
async def test_thinking_is_counted_exactly(http: httpx.AsyncClient, prompt):
    text, ends = prompt
    answer = (await generated(http, text)).json()
    assert answer["meta_info"]["reasoning_tokens"] == answer["output_ids"].index(ends) + 1


@ported(USAGE, "TestNormalDecoding.test_generate_api_streaming")
async def test_thinking_is_counted_as_it_goes_on(http: httpx.AsyncClient, prompt):
    text, ends = prompt
    for event in events_of(await generated(http, text, stream=True)):
        ids = event["output_ids"]
        counted = ids.index(ends) + 1 if ends in ids else len(ids)
        assert event["meta_info"]["reasoning_tokens"] == counted


@ported(USAGE, "TestNormalDecoding.test_chat_api_non_streaming")
async def test_thinking_is_in_a_chats_usage(client: openai.AsyncOpenAI):
    answer = await client.chat.completions.create(model=MODEL, messages=SUM, max_tokens=1024)
    assert answer.usage is not None
    assert answer.usage.reasoning_tokens != 0


@ported(USAGE, "TestNormalDecoding.test_chat_api_streaming")
async def test_thinking_is_in_a_streams_usage(client: openai.AsyncOpenAI):
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=SUM,
        max_tokens=1024,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
    )
    counted = [chunk.usage.reasoning_tokens async for chunk in stream if chunk.usage]
    assert counted
    assert 0 not in counted


async def ask(client: openai.AsyncOpenAI, *, stream: bool = False, **extra: Any) -> Any:
    return await client.chat.completions.create(
        model=MODEL, messages=SUM, max_tokens=100, stream=stream, extra_body=extra
    )


async def collect(stream: Any) -> tuple[str, str]:
    """What a stream thinks and what it says."""
    thought = said = ""
    async for chunk in stream:
        delta = chunk.choices[0].delta
        said += delta.content or ""
        thought += getattr(delta, "reasoning_content", None) or ""
    return thought, said


@ported(KIT, "SeparateReasoningMixin.test_streaming_separate_reasoning_false")
async def test_a_stream_with_its_thinking_in_the_text(client: openai.AsyncOpenAI):
    thought, said = await collect(await ask(client, stream=True, separate_reasoning=False))
    assert not thought
    assert said


@ported(KIT, "SeparateReasoningMixin.test_streaming_separate_reasoning_true")
async def test_a_stream_with_its_thinking_apart(client: openai.AsyncOpenAI):
    thought, said = await collect(await ask(client, stream=True, separate_reasoning=True))
    assert thought
    assert said


@ported(KIT, "SeparateReasoningMixin.test_streaming_separate_reasoning_true_stream_reasoning_false")
async def test_a_stream_with_its_thinking_in_one_piece(client: openai.AsyncOpenAI):
    stream = await ask(client, stream=True, separate_reasoning=True, stream_reasoning=False)
    deltas = [chunk.choices[0].delta async for chunk in stream]
    thoughts = [t for delta in deltas if (t := getattr(delta, "reasoning_content", None))]
    assert len(thoughts) == 1
    assert "".join(delta.content or "" for delta in deltas)


@ported(KIT, "SeparateReasoningMixin.test_nonstreaming_separate_reasoning_false")
async def test_an_answer_with_its_thinking_in_the_text(client: openai.AsyncOpenAI):
    message = (await ask(client, separate_reasoning=False)).choices[0].message
    assert not message.reasoning_content
    assert message.content


@ported(KIT, "SeparateReasoningMixin.test_nonstreaming_separate_reasoning_true")
async def test_an_answer_with_its_thinking_apart(client: openai.AsyncOpenAI):
    message = (await ask(client, separate_reasoning=True)).choices[0].message
    assert message.reasoning_content
    assert message.content


CHAT = {"messages": HELLO, "temperature": 0, "separate_reasoning": True}


@pytest.mark.parametrize("thinking", [True, False])
@ported(ENABLED, "TestEnableThinking.test_chat_completion_reasoning")
async def test_thinking_is_switched(http: httpx.AsyncClient, thinking: bool):
    kwargs = {"enable_thinking": thinking}
    answer = await post(http, "/v1/chat/completions", **CHAT, chat_template_kwargs=kwargs)
    message = answer.json()["choices"][0]["message"]
    if thinking:
        assert message["reasoning_content"] is not None
    else:
        assert message.get("reasoning_content") is None


@pytest.mark.parametrize("thinking", [True, False])
@ported(ENABLED, "TestEnableThinking.test_stream_chat_completion_reasoning")
async def test_thinking_is_switched_in_a_stream(http: httpx.AsyncClient, thinking: bool):
    kwargs = {"enable_thinking": thinking}
    answer = await post(http, "/v1/chat/completions", **CHAT, stream=True, chat_template_kwargs=kwargs)
    deltas = [event["choices"][0]["delta"] for event in events_of(answer) if event["choices"]]
    assert any(delta.get("reasoning_content") for delta in deltas) is thinking
    assert any(delta.get("content") for delta in deltas)


def message(content: str, thinking: str, **fields: Any) -> dict[str, Any]:
    turn = {"role": "user", "content": content}
    return {"max_tokens": 256, "messages": [turn], "thinking": {"type": thinking}} | fields


@ported(ENABLED, "TestEnableThinking.test_anthropic_messages_without_thinking_blocks")
async def test_a_message_without_thinking(http: httpx.AsyncClient):
    question = "Solve carefully but return only the final answer: What is 27 * 14?"
    blocks = (await post(http, "/v1/messages", **message(question, "disabled"))).json()["content"]
    assert blocks
    assert not {block["type"] for block in blocks} & {"thinking", "redacted_thinking"}
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    assert texts
    assert not any("</think>" in text for text in texts)


@ported(ENABLED, "TestEnableThinking.test_anthropic_messages_with_thinking_blocks")
async def test_a_message_with_thinking(http: httpx.AsyncClient):
    blocks = (await post(http, "/v1/messages", **message(TWO, "enabled", temperature=0))).json()["content"]
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    assert any(thoughts)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    assert not texts or any(texts)


async def delta_kinds(http: httpx.AsyncClient, asked: dict[str, Any]) -> list[str]:
    """The kinds of the deltas of a stream that say something."""
    events = events_of(await post(http, "/v1/messages", **asked, stream=True))
    deltas = [event["delta"] for event in events if event.get("delta")]
    return [
        d.get("type") for d in deltas if d.get("text") or d.get("thinking") or d.get("signature") is not None
    ]


@ported(ENABLED, "TestEnableThinking.test_anthropic_messages_stream_without_thinking_events")
async def test_a_streamed_message_without_thinking(http: httpx.AsyncClient):
    question = "Solve carefully but return only the final answer: What is 39 + 48?"
    kinds = await delta_kinds(http, message(question, "disabled"))
    assert "text_delta" in kinds
    assert not {*kinds} & {"thinking_delta", "signature_delta"}


@ported(ENABLED, "TestEnableThinking.test_anthropic_messages_stream_with_thinking_events")
async def test_a_streamed_message_with_thinking(http: httpx.AsyncClient):
    kinds = await delta_kinds(http, message(TWO, "enabled", temperature=0))
    assert "thinking_delta" in kinds
    assert "signature_delta" in kinds
