"""Recording on /generate with the real engine, and what /retrieve_from_text makes of it."""

from __future__ import annotations

import json

import pytest

from support.engine_process import engine_process
from support.running_gateway import running_gateway

SAMPLING = {"max_new_tokens": 12, "temperature": 1.0}


@pytest.fixture(scope="module")
def engine():
    with engine_process() as (url, _):
        yield url


async def generate(gateway, text, **fields):
    status, reply, _ = await gateway.post("/generate", {"text": text, "sampling_params": SAMPLING, **fields})
    assert status == 200, reply
    return reply


async def retrieve(gateway, text, **fields):
    status, told, _ = await gateway.post("/retrieve_from_text", {"text": text, **fields})
    assert status == 200, told
    return told


async def test_two_turns_come_back_as_the_engine_made_them(engine):
    async with running_gateway(engine, trajectories={"enabled": True}) as gateway:
        first = "<|im_start|>user\nWhat is Radixway?<|im_end|>\n<|im_start|>assistant\n"
        one = await generate(gateway, first)
        logprobs = one["meta_info"]["output_token_logprobs"]
        assert [row[1] for row in logprobs] == one["output_ids"], "log-probabilities are asked for"
        second = first + one["text"] + "<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
        two = await generate(gateway, second)
        told = await retrieve(gateway, second + two["text"], strict=True)
    made = len(two["output_ids"])
    assert told["tokens"][-made:] == two["output_ids"]
    assert told["loss_mask"][-made:] == [1] * made
    assert told["rollout_logp"][-made:] == pytest.approx(
        [row[0] for row in two["meta_info"]["output_token_logprobs"]], abs=1e-6
    )
    assert sum(told["loss_mask"]) == told["loss_mask_length"] == made + len(one["output_ids"])
    assert told["exact"] and told["coverage"] == 1
    assert told["token_length"] == two["meta_info"]["prompt_tokens"] + made
    assert set(told["versions"]) == {None, "default"}
    start = next(span["start"] for span in told["spans"] if span["source"] == "sampled")
    assert told["tokens"][start : start + len(one["output_ids"])] == one["output_ids"]


@pytest.mark.parametrize("shown", [False, True])
async def test_recorded_prefixes_are_drawn_and_read_only_where_that_is_allowed(engine, shown):
    sections = {"trajectories": {"enabled": True}, "console": {"show_prompts": shown}}
    begins = "<|im_start|>user\nWhat is shared?"
    async with running_gateway(engine, **sections) as gateway:
        for ending in (" This", " And that"):
            await generate(gateway, f"{begins}{ending}<|im_end|>\n<|im_start|>assistant\n")
        told = (await gateway.get("/prefixes?source=trajectories"))[1]
    model, first, *_ = told["prefixes"]
    assert (model["kind"], first["parent"], first["begin"]) == ("model", 0, 0)
    parents = [each["parent"] for each in told["prefixes"]]
    parted = [at for at in set(parents) if at is not None and parents.count(at) == 2]
    assert len(parted) == 1, "what both have in common is there once"
    if not shown:
        assert {each["text"] for each in told["prefixes"]} == {None} and "shared?" not in json.dumps(told)
        return
    path, at = "", parted[0]
    while at != 0:
        path, at = told["prefixes"][at]["text"] + path, parents[at]
    assert path == begins


async def test_a_stream_passes_as_it_is_and_is_recorded(engine):
    text = "<|im_start|>user\nTell me of prefixes.<|im_end|>\n<|im_start|>assistant\n"
    body = {"text": text, "sampling_params": SAMPLING, "stream": True}
    async with running_gateway(engine, trajectories={"enabled": True}) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=body) as response:
            raw = (await response.read()).decode()
        events = [line[6:] for line in raw.splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]" and len(events) > 3
        last = json.loads(events[-2])
        told = await retrieve(gateway, text + last["text"])
        assert told["tokens"][-len(last["output_ids"]) :] == last["output_ids"] and told["exact"]
        assert gateway.in_flight() == 0


async def test_a_text_never_seen_is_tokenized_and_says_so(engine):
    async with running_gateway(engine, trajectories={"enabled": True}) as gateway:
        told = await retrieve(gateway, "Nobody ever said this.")
        assert not told["exact"] and told["coverage"] == 0 and not any(told["loss_mask"])
        assert [span["source"] for span in told["spans"]] == ["retokenized"]
        status, error, _ = await gateway.post("/retrieve_from_text", {"text": "Nor this.", "strict": True})
        assert status == 409 and error["error"]["code"] == "not_exact"
        for body, field in (
            ({"text": ""}, "text"),
            ({}, "text"),
            ({"text": 5}, "text"),
            ({"text": "a", "strict": 7}, "strict"),
        ):
            status, error, _ = await gateway.post("/retrieve_from_text", body)
            assert status == 400 and field in error["error"]["message"], error


async def test_messages_are_written_by_the_models_template(engine):
    messages = [{"role": "user", "content": "What is Radixway?"}]
    async with running_gateway(engine, trajectories={"enabled": True}) as gateway:
        status, told, _ = await gateway.post("/retrieve_from_messages_template", {"messages": messages})
        assert status == 200 and "What is Radixway?" in told["response"] and told["tokens"]
        reply = await generate(gateway, told["response"])
        again = await retrieve(gateway, told["response"] + reply["text"], strict=True)
        assert again["tokens"][: len(told["tokens"])] == told["tokens"]
        status, error, _ = await gateway.post("/retrieve_from_messages_template", {"messages": []})
        assert status == 400 and "messages" in error["error"]["message"]


async def test_siblings_of_one_prompt_keep_their_own_tokens(engine):
    text = "<|im_start|>user\nSay something.<|im_end|>\n<|im_start|>assistant\n"
    async with running_gateway(engine, trajectories={"enabled": True}) as gateway:
        replies = [
            await generate(
                gateway, text, session_id=f"s{number}", sampling_params={**SAMPLING, "temperature": 1.5}
            )
            for number in range(8)
        ]
        for number, reply in enumerate(replies):
            told = await retrieve(gateway, text + reply["text"], session_id=f"s{number}", strict=True)
            assert told["tokens"][-len(reply["output_ids"]) :] == reply["output_ids"]
            assert told["rollout_logp"][-len(reply["output_ids"]) :] == pytest.approx(
                [row[0] for row in reply["meta_info"]["output_token_logprobs"]], abs=1e-6
            )
        _, metrics = await gateway.get("/metrics")
        assert metrics["cache"]["cur_cache_size"] > 0 and metrics["cache"]["cache_hits"] > 0


async def test_without_recording_there_is_nothing_to_retrieve(engine):
    async with running_gateway(engine) as gateway:
        status, error, _ = await gateway.post("/retrieve_from_text", {"text": "a"})
        assert status == 404 and error["error"]["code"] == "trajectories_off"
