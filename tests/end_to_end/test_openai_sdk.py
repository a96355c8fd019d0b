"""The `openai` SDK against a gateway with two real engines behind it."""

import asyncio

import openai
import pytest

from support.engine_process import engine_process
from support.running_gateway import running_gateway

MODEL = "radixway-guide"
LONG_SYSTEM = "You are the guide of a small museum of machines. " * 40


def sdk(gateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0)


def ask(text, system=None):
    messages = [{"role": "system", "content": system}] if system else []
    return {
        "model": MODEL,
        "messages": [*messages, {"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 24,
    }


async def test_models_and_whole_and_streamed_answers_agree(engines):
    async with running_gateway(*engines) as gateway, sdk(gateway) as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        whole = await client.chat.completions.create(**ask("What is a radix tree?"))
        text = whole.choices[0].message.content
        assert text.strip()
        assert whole.usage.prompt_tokens > 0
        stream = await client.chat.completions.create(
            **ask("What is a radix tree?"), stream=True, stream_options={"include_usage": True}
        )
        pieces, usage = [], None
        async for chunk in stream:
            pieces += [choice.delta.content or "" for choice in chunk.choices]
            usage = chunk.usage or usage
        assert "".join(pieces) == text
        assert usage.completion_tokens == whole.usage.completion_tokens
        assert len([piece for piece in pieces if piece]) > 1
        completion = await client.completions.create(model=MODEL, prompt="A radix tree", max_tokens=4)
        assert completion.choices[0].text


async def test_bad_requests_become_the_sdks_own_exceptions(engines):
    async with running_gateway(*engines) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(**{**ask("x"), "model": "no-such-model"})
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**ask("word " * 20_000))
        assert refused.value.code == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**{**ask("x"), "max_tokens": -1})
        assert refused.value.param == "max_tokens"
        assert (await client.chat.completions.create(**ask("x"))).choices


async def test_two_concurrent_chats_share_a_long_system_prompt(engines):
    async with running_gateway(engines[0]) as gateway, sdk(gateway) as client:
        answers = await asyncio.gather(
            *(
                client.chat.completions.create(**ask(text, LONG_SYSTEM))
                for text in ("What is a token?", "Who are you?")
            )
        )
        cached = sorted(answer.usage.prompt_tokens_details.cached_tokens for answer in answers)
        assert cached[-1] > 0


async def test_generate_speaks_sglangs_protocol(engines):
    async with running_gateway(*engines) as gateway:
        body = {
            "text": "A radix tree",
            "sampling_params": {"max_new_tokens": 6, "temperature": 0},
            "return_logprob": True,
        }
        status, answer, _ = await gateway.post("/generate", body)
        assert status == 200
        meta = answer["meta_info"]
        assert len(answer["output_ids"]) == meta["completion_tokens"] == len(meta["output_token_logprobs"])
        assert [entry[1] for entry in meta["output_token_logprobs"]] == answer["output_ids"]
        assert meta["weight_version"]
        assert (await gateway.get("/get_model_info"))[0] == 200
        assert (await gateway.post("/flush_cache", b""))[0] == 200


async def test_an_engine_killed_under_load_loses_no_request_that_had_not_begun_to_answer(engines):
    with engine_process() as (doomed_url, doomed):
        taking_turns = {"policy": "round_robin"}
        async with (
            running_gateway(engines[0], doomed_url, routing=taking_turns) as gateway,
            sdk(gateway) as client,
        ):
            asking = [
                asyncio.ensure_future(
                    client.chat.completions.create(**ask(f"{n}: what is a KV cache?", LONG_SYSTEM))
                )
                for n in range(16)
            ]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            assert gateway.gateway.registry.get_worker(doomed_url).load.requests > 0
            doomed.kill()
            answers = await asyncio.gather(*asking)
            assert all(answer.choices[0].finish_reason in ("stop", "length") for answer in answers)
            assert gateway.in_flight() == 0
