"""The real engine with the bundled model behind its server: what clients rely on, end to end."""

import asyncio
import json
from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = "radixway-guide"
QUESTION: list[Any] = [{"role": "user", "content": "What is a radix tree? 什么是基数树?"}]
GREEDY: dict[str, Any] = {"temperature": 0, "extra_body": {"ignore_eos": True}}


async def test_streamed_and_whole_answers_are_the_same_text(guide: Served) -> None:
    create = guide.openai.chat.completions.create
    whole = await create(model=MODEL, messages=QUESTION, max_tokens=40, **GREEDY)
    stream = await create(model=MODEL, messages=QUESTION, max_tokens=40, stream=True, **GREEDY)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == (
        whole.choices[0].message.content
    )
    assert whole.usage is not None and whole.usage.completion_tokens == 40
    assert whole.choices[0].finish_reason == "length"


async def test_a_second_chat_reuses_the_prefix_of_the_first(guide: Served) -> None:
    system = {"role": "system", "content": "You are the guide of a small museum of machines. " * 20}
    cached = []
    for question in ("What is a radix tree?", "What is a prefix?"):
        messages: Any = [system, {"role": "user", "content": question}]
        reply = await guide.openai.chat.completions.create(model=MODEL, messages=messages, max_tokens=2)
        assert reply.usage is not None and reply.usage.prompt_tokens_details is not None
        cached.append(reply.usage.prompt_tokens_details.cached_tokens)
    assert cached[0] == 0 and cached[1] is not None and cached[1] > 100


async def test_salts_do_not_share_prefixes(guide: Served) -> None:
    body = {"prompt": "a shared beginning " * 20, "max_tokens": 1}
    cached = []
    for salt in ("a", "a", "b", None):
        reply = (await guide.post("/v1/completions", {**body, "cache_salt": salt})).json()
        cached.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[1] > 0 and [cached[0], *cached[2:]] == [0, 0, 0]


async def test_what_is_cached_is_told_by_length_and_use(guide: Served) -> None:
    shared = "a shared beginning of several questions " * 20
    for ending in ("one", "two", "two"):
        await guide.post("/v1/completions", {"prompt": shared + ending * 30, "max_tokens": 1})
    salted = {"prompt": shared, "max_tokens": 1, "cache_salt": "pepper"}
    await guide.post("/v1/completions", salted)
    told = (await guide.http.get("/cached_prefixes")).json()["prefixes"]
    first = told[0]
    assert (first["parent"], first["begin"], first["hits"], first["in_use"]) == (None, 0, 2, False)
    assert first["tokens"] > 50 and first["hidden"] == 0
    below = [each for each in told if each["parent"] == 0]
    assert len(below) == 2 and {each["begin"] for each in below} == {first["tokens"]}
    assert len({each["space"] for each in told}) == 2 and "pepper" not in json.dumps(told)
    few = (await guide.http.get("/cached_prefixes?most=1")).json()["prefixes"]
    assert len(few) == 1 and few[0]["hidden"] == 2
    refused = await guide.http.get("/cached_prefixes?most=0")
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "most"


async def test_many_at_once_give_what_each_alone_gives(guide: Served) -> None:
    async def answer(index: int) -> str:
        messages: Any = [{"role": "user", "content": f"Question {index}: " + "what? " * index}]
        stream = await guide.openai.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=12, stream=True, **GREEDY
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    together = await asyncio.gather(*(answer(index) for index in range(12)))
    assert together == [await answer(index) for index in range(12)]


async def test_a_seed_repeats_an_answer_and_n_answers_differ(guide: Served) -> None:
    async def sampled() -> list[str | None]:
        reply = await guide.openai.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            max_tokens=24,
            n=3,
            seed=5,
            temperature=1.5,
            top_p=1,
            extra_body={"ignore_eos": True},
        )
        return [choice.message.content for choice in reply.choices]

    first = await sampled()
    assert first == await sampled() and len(set(first)) > 1


async def test_the_greedy_token_is_the_likeliest_of_its_alternatives(guide: Served) -> None:
    reply = await guide.openai.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=8, logprobs=True, top_logprobs=5, **GREEDY
    )
    assert reply.choices[0].logprobs is not None
    for entry in reply.choices[0].logprobs.content or []:
        assert len(entry.top_logprobs) == 5
        assert (entry.token, entry.logprob) == (entry.top_logprobs[0].token, entry.top_logprobs[0].logprob)
        assert entry.logprob <= 0


async def test_generate_takes_text_or_its_ids_and_gives_ids_that_decode_to_the_text(guide: Served) -> None:
    ids = (await guide.post("/tokenize", {"prompt": "Radix trees"})).json()["tokens"]
    sampling = {"temperature": 0, "max_new_tokens": 20, "ignore_eos": True}
    by_text = (await guide.post("/generate", {"text": "Radix trees", "sampling_params": sampling})).json()
    by_ids = (await guide.post("/generate", {"input_ids": ids, "sampling_params": sampling})).json()
    assert by_text["output_ids"] == by_ids["output_ids"] and len(by_ids["output_ids"]) == 20
    back = await guide.post("/detokenize", {"tokens": by_ids["output_ids"], "skip_special_tokens": True})
    assert back.json()["text"] == by_text["text"]
    assert by_ids["meta_info"]["weight_version"] == "default"


async def test_a_stop_string_ends_the_answer_in_the_engine(guide: Served) -> None:
    sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": 30, "ignore_eos": True}
    sampling["skip_special_tokens"] = False
    free = (await guide.post("/generate", {"text": "Radix", "sampling_params": sampling})).json()
    stop = free["text"][4:9]
    cut = (
        await guide.post("/generate", {"text": "Radix", "sampling_params": {**sampling, "stop": stop}})
    ).json()
    assert cut["text"] == free["text"][: free["text"].index(stop)]
    assert cut["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert cut["meta_info"]["completion_tokens"] < 30
    kept = {**sampling, "stop": stop, "no_stop_trim": True}
    kept_reply = (await guide.post("/generate", {"text": "Radix", "sampling_params": kept})).json()
    assert kept_reply["text"] == cut["text"] + stop


async def test_zero_new_tokens_only_read_the_prompt(guide: Served) -> None:
    reply = (
        await guide.post("/generate", {"text": "Radix", "sampling_params": {"max_new_tokens": 0}})
    ).json()
    assert reply["output_ids"] == [] and reply["text"] == ""
    assert reply["meta_info"]["finish_reason"]["type"] == "length"


async def test_an_answer_without_max_tokens_ends_where_the_context_does(cramped_guide: Served) -> None:
    prompt = {"input_ids": [7] * 60, "sampling_params": {"ignore_eos": True}}
    reply = (await cramped_guide.post("/generate", prompt)).json()
    assert len(reply["output_ids"]) == 4 and reply["meta_info"]["finish_reason"]["type"] == "length"
    body = {"prompt": [7] * 60, "ignore_eos": True}
    usage = (await cramped_guide.post("/v1/completions", body)).json()["usage"]
    assert usage["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_pages(guide: Served, stream: bool) -> None:
    host, port = guide.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = {"prompt": "for ever and ever", "max_tokens": 4000, "ignore_eos": True, "stream": stream, "n": 3}
    raw = json.dumps(body).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw)
    await writer.drain()
    while (info := await guide.info())["running"] < 3:
        pass
    assert info["kv_usage"] > 0
    writer.close()
    await guide.idle()
    assert (await guide.info())["kv_usage"] == 0


async def test_those_who_leave_take_nothing_from_those_who_stay(guide: Served) -> None:
    """Twenty streams over one prefix; every other client leaves after some events of its own."""

    def body(index: int) -> dict[str, Any]:
        sampling = {"temperature": 0, "max_new_tokens": 20, "ignore_eos": True}
        text = "The radix tree holds what all prompts share. " * 4 + f"Number {index}:"
        return {"text": text, "stream": True, "sampling_params": sampling}

    async def stay(index: int) -> list[int]:
        response = await guide.post("/generate", body(index))
        *events, done = [line for line in response.text.split("\n\n") if line]
        assert done == "data: [DONE]"
        ids: list[int] = json.loads(events[-1].removeprefix("data: "))["output_ids"]
        return ids

    async def leave(index: int) -> None:
        async with guide.http.stream("POST", "/generate", json=body(index)) as response:
            lines = response.aiter_lines()
            for _ in range(index % 5):
                await anext(lines)

    alone = [await stay(index) for index in range(0, 20, 2)]
    together = await asyncio.gather(*(leave(i) if i % 2 else stay(i) for i in range(20)))
    assert together[::2] == alone
    await guide.idle()


async def test_a_running_request_is_aborted_by_its_id(guide: Served) -> None:
    sampling = {"max_new_tokens": 4000, "ignore_eos": True}
    body = {"text": "for ever", "rid": "long", "sampling_params": sampling, "stream": True}
    async with guide.http.stream("POST", "/generate", json=body) as response:
        lines = response.aiter_lines()
        await anext(lines)
        await guide.post("/abort_request", {"rid": "long"})
        events = [line async for line in lines if line]
    assert json.loads(events[-2].removeprefix("data: "))["meta_info"]["finish_reason"]["type"] == "abort"
    assert events[-1] == "data: [DONE]"


async def test_health_answers_while_a_long_prompt_is_read(guide: Served) -> None:
    body = {"prompt": [7, 8, 9] * 1300, "max_tokens": 1}
    reading = asyncio.create_task(guide.post("/v1/completions", body))
    while (info := await guide.info())["running"] == 0:
        assert not reading.done()
    answered = 0
    while not reading.done():
        assert (await guide.http.get("/health")).status_code == 200
        answered += 1
    assert (await reading).status_code == 200
    assert answered > 3, info


async def test_the_cache_cannot_be_flushed_under_a_running_request(guide: Served) -> None:
    sampling = {"max_new_tokens": 4000, "ignore_eos": True}
    body = {"text": "for ever", "rid": "flush", "sampling_params": sampling}
    running = asyncio.create_task(guide.post("/generate", body))
    while not (await guide.info())["running"]:
        pass
    assert (await guide.http.post("/flush_cache")).status_code == 400
    await guide.post("/abort_request", {"rid": "flush"})
    assert (await running).json()["meta_info"]["finish_reason"]["type"] == "abort"
