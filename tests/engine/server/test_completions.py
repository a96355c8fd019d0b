"""/v1/completions as the `openai` SDK sees it."""

from typing import Any

import openai
import pytest

from support.scripted_engine import ANSWER
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"


async def test_a_text_is_continued_with_sixteen_tokens_at_most(served: Served) -> None:
    await served.openai.completions.create(model=MODEL, prompt="hello")
    assert served.engine.submitted[0][1].max_tokens == 16


async def test_a_whole_answer_has_text_finish_reason_and_usage(served: Served) -> None:
    reply = await served.openai.completions.create(model=MODEL, prompt="hello", max_tokens=100)
    assert reply.choices[0].text == ANSWER and reply.choices[0].finish_reason == "stop"
    assert reply.id.startswith("cmpl-") and reply.object == "text_completion"
    assert reply.usage is not None and reply.usage.prompt_tokens == len(served.engine.submitted[0][0])


async def test_prompts_come_as_texts_ids_or_lists_of_ids(served: Served) -> None:
    encode = served.engine.tokenizer.encode
    for prompt, want in [
        ("one text", [encode("one text")]),
        (["a text", "another"], [encode("a text"), encode("another")]),
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
    ]:
        served.engine.submitted.clear()
        prompts: Any = prompt
        reply = await served.openai.completions.create(model=MODEL, prompt=prompts, n=2)
        assert [ids for ids, *_ in served.engine.submitted] == [ids for ids in want for _ in range(2)]
        assert [choice.index for choice in reply.choices] == list(range(2 * len(want)))
        assert reply.usage is not None
        assert reply.usage.prompt_tokens == sum(map(len, want))
        assert reply.usage.prompt_tokens_details is not None
        assert reply.usage.prompt_tokens_details.cached_tokens == sum(len(ids) // 2 for ids in want)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("as_ids", [False, True])
async def test_echo_puts_the_prompt_in_front(served: Served, stream: bool, as_ids: bool) -> None:
    prompt: Any = served.engine.tokenizer.encode("Say: 你好<|im_end|>") if as_ids else "Say: 你好<|im_end|>"
    reply: Any = await served.openai.completions.create(
        model=MODEL, prompt=prompt, max_tokens=100, echo=True, stream=stream
    )
    text = "".join([c.choices[0].text async for c in reply]) if stream else reply.choices[0].text
    assert text == "Say: 你好<|im_end|>" + ANSWER


async def test_a_stream_gives_the_same_text_and_usage(served: Served) -> None:
    stream = await served.openai.completions.create(
        model=MODEL, prompt=["a", "b"], max_tokens=100, stream=True, stream_options={"include_usage": True}
    )
    texts = {0: "", 1: ""}
    chunks = [chunk async for chunk in stream]
    for chunk in chunks[:-1]:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {0: ANSWER, 1: ANSWER}
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2 * (len(served.engine.script) + 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_give_tokens_alternatives_and_offsets(served: Served, stream: bool) -> None:
    wanted: Any = {"model": MODEL, "prompt": "hello", "max_tokens": 100, "logprobs": 2}
    tokens, offsets, logprobs, tops = [], [], [], []
    reply: Any = await served.openai.completions.create(**wanted, stream=stream)
    choices = [c.choices[0] async for c in reply] if stream else [reply.choices[0]]
    for choice in choices:
        tokens += choice.logprobs.tokens
        offsets += choice.logprobs.text_offset
        logprobs += choice.logprobs.token_logprobs
        tops += choice.logprobs.top_logprobs
    assert len(tokens) == len(logprobs) == len(tops) == len(served.engine.script) + 1
    assert logprobs[:3] == [-0.25, -9999.0, -0.25]
    assert offsets == [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    assert all(
        token in top and len(top) == 3 for token, top in zip(tokens, tops, strict=True) if token != "�"
    )


async def test_token_ids_come_back_when_asked_for(served: Served) -> None:
    body = {"prompt": [5, 6], "max_tokens": 100, "return_token_ids": True}
    choice = (await served.post("/v1/completions", body)).json()["choices"][0]
    assert choice["prompt_token_ids"] == [5, 6]
    assert choice["token_ids"] == [*served.engine.script, served.engine.eos]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "x", "suffix": "end"}, "suffix"),
        ({"prompt": "x", "best_of": 4}, "best_of"),
        ({"prompt": "x", "echo": True, "logprobs": 21}, "logprobs"),
        ({"prompt": "x", "prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt": "x", "prompt_logprobs": 0, "stream": True}, "prompt_logprobs"),
        ({"prompt": "x", "logprobs": 21}, "logprobs"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["ok", []]}, "prompt"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [[1, "a"]]}, "prompt[0][1]"),
        ({"prompt": {"text": "x"}}, "prompt"),
        ({}, "prompt"),
        ({"prompt": ["x"] * 513, "n": 2}, "prompt"),
        ({"prompt": "x" * 3000}, "prompt"),
        ({"prompt": "x", "max_tokens": 300}, "max_tokens"),
    ],
)
async def test_what_cannot_be_served_names_its_field(
    cramped_guide: Served, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await cramped_guide.openai.post("/completions", body={"model": MODEL, **fields}, cast_to=object)
    assert refused.value.param == param
