"""What is measured of one engine, and what is fitted to it."""

import asyncio
import json

import pytest

from radixway.cluster.planner.engine_profiler import (
    DecodeSample,
    PrefillSample,
    ProfilingError,
    fit_profile,
    measure_engine,
)
from radixway.core.config import ProfileConfig
from support.scripted_worker import scripted_worker

ENGINE = ProfileConfig(step_s=0.01, prefill_s=0.0002, decode_s=0.001, context_s=0.000_001)


def times_of(engine):
    """What an engine that is exactly as the profile says would be measured at."""
    alone = [PrefillSample(tokens, engine.step_s + tokens * engine.prefill_s) for tokens in (50, 400, 1500)]
    together = [
        DecodeSample(n, tokens, engine.step_s + n * (engine.decode_s + tokens * engine.context_s))
        for tokens in (60, 1500)
        for n in (1, 4, 8)
    ]
    return alone, together


def test_the_constants_of_an_engine_are_found_in_its_times():
    fitted = fit_profile(*times_of(ENGINE), startup_s=42)
    for name in ("step_s", "prefill_s", "decode_s", "context_s"):
        assert getattr(fitted, name) == pytest.approx(getattr(ENGINE, name)), name
    assert fitted.startup_s == 42


def test_times_that_make_no_sense_give_no_negative_constants():
    alone = [PrefillSample(50, 1.0), PrefillSample(1500, 0.5)]
    together = [DecodeSample(n, tokens, 0.1 / n) for tokens in (60, 1500) for n in (1, 4, 8)]
    fitted = fit_profile(alone, together, 0)
    assert fitted.prefill_s > 0
    assert min(fitted.step_s, fitted.decode_s, fitted.context_s) >= 0


def test_batches_of_one_length_tell_nothing_of_the_context():
    with pytest.raises(ValueError, match="two lengths"):
        fit_profile(times_of(ENGINE)[0], [DecodeSample(1, 60, 0.1), DecodeSample(4, 60, 0.2)], 0)


async def test_an_engine_is_asked_alone_and_in_batches_with_prompts_that_it_has_never_seen():
    prompts, running, most = [], 0, 0

    async def answer(exchange):
        nonlocal running, most
        body = exchange.json()
        prompts.append(body["prompt"])
        running += 1
        most = max(most, running)
        await exchange.begin_stream()
        for _ in range(body["max_tokens"]):
            await exchange.chunk(b'data: {"choices": [{"text": "a"}]}\n\n')
            await asyncio.sleep(0)
        running -= 1
        usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": body["max_tokens"]}
        await exchange.chunk(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(answer) as worker:
        alone, together = await measure_engine(worker.url, "m", lengths=(5, 50))
    assert {each.prompt_tokens for each in alone} == {6, 51}
    assert sorted({each.requests for each in together}) == [1, 4, 8]
    assert most > 1
    assert len(set(prompts)) == len(prompts)


async def test_an_engine_that_refuses_is_quoted():
    async def refuse(exchange):
        await exchange.reply(404, b'{"error": {"message": "no such model"}}')

    async with scripted_worker(refuse) as worker:
        with pytest.raises(ProfilingError, match="404.*no such model"):
            await measure_engine(worker.url, "m")


async def test_where_no_engine_is_the_address_is_told():
    async with scripted_worker() as worker:
        url = worker.url
    with pytest.raises(ProfilingError, match=url):
        await measure_engine(url, "m")
