"""SGLang's kit of log-probabilities: what decoding told is what prefill tells of the same tokens."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import httpx
import pytest

from support.ported_cases import ported

SOURCE = "python/sglang/test/kits/logprob_kit.py"
CASES = "LogprobCrossModeMixin."
PROMPTS = (
    "The capital of France is",
    "Explain quantum computing in simple terms:",
    "Today is a sunny day and I like",
)
PROBES = [1, 2, 10, 100, 1000]
NEAR = 0.05


async def generate(http: httpx.AsyncClient, prompt: str | list[int], tokens: int, **fields: Any) -> Any:
    asked = {
        "text" if isinstance(prompt, str) else "input_ids": prompt,
        "sampling_params": {"temperature": 0, "ignore_eos": True, "max_new_tokens": tokens},
        "return_logprob": True,
    }
    response = await http.post("/generate", json=asked | fields)
    assert response.status_code == 200, response.text
    return response.json()["meta_info"]


def same(told: list[Any], scored: list[Any]) -> None:
    """Check the log-probabilities of tokens, position by position."""
    assert len(told) == len(scored)
    for (value, token, *_), (other, other_token, *_) in zip(told, scored, strict=True):
        if value is not None and other is not None:
            assert token == other_token
            assert value == pytest.approx(other, abs=NEAR)


def same_sets(told: list[Any], scored: list[Any], *, all_ids: bool) -> None:
    """Check several tokens' log-probabilities a position; without `all_ids` those that are told twice."""
    assert len(told) == len(scored)
    for here, there in zip(told, scored, strict=True):
        if here is None or there is None:
            continue
        first = {entry[1]: entry[0] for entry in here if entry[0] is not None}
        second = {entry[1]: entry[0] for entry in there if entry[0] is not None}
        common = first.keys() & second.keys()
        assert common
        if all_ids:
            assert first.keys() == second.keys()
        for token in common:
            assert first[token] == pytest.approx(second[token], abs=NEAR)


async def agree(http: httpx.AsyncClient, prompt: str, tokens: int, *, texts: bool = False) -> None:
    fields = {
        "top_logprobs_num": 5,
        "token_ids_logprob": PROBES,
        "logprob_start_len": 0,
        "return_text_in_logprobs": texts,
    }
    told = await generate(http, prompt, tokens, **fields)
    length = told["prompt_tokens"]
    sequence = [entry[1] for entry in told["input_token_logprobs"] + told["output_token_logprobs"]]
    scored = await generate(http, sequence, 0, **fields)
    same(told["output_token_logprobs"], scored["input_token_logprobs"][length:])
    same(told["input_token_logprobs"], scored["input_token_logprobs"][:length])
    for name, all_ids in (("top_logprobs", False), ("token_ids_logprobs", True)):
        same_sets(told[f"output_{name}"], scored[f"input_{name}"][length:], all_ids=all_ids)
        same_sets(told[f"input_{name}"], scored[f"input_{name}"][:length], all_ids=all_ids)
    assert len(told["input_token_logprobs"]) == length
    if texts:
        assert all(entry[2] is not None for entry in told["output_token_logprobs"])


@ported(SOURCE, f"{CASES}test_cross_mode_logprobs")
async def test_decode_and_prefill_agree(http: httpx.AsyncClient):
    for prompt in PROMPTS:
        await agree(http, prompt, 32)


@ported(SOURCE, f"{CASES}test_cross_mode_return_text_in_logprobs")
async def test_the_tokens_texts_are_told(http: httpx.AsyncClient):
    await agree(http, PROMPTS[0], 8, texts=True)


@ported(SOURCE, f"{CASES}test_cross_mode_logprob_start_len")
async def test_where_the_prompts_logprobs_begin(http: httpx.AsyncClient):
    for prompt in PROMPTS:
        length = (await generate(http, prompt, 1, top_logprobs_num=0, logprob_start_len=-1))["prompt_tokens"]
        for start in (0, 1, length // 2, length - 1):
            told = await generate(http, prompt, 8, top_logprobs_num=5, logprob_start_len=start)
            assert len(told["input_token_logprobs"]) == length - start
            assert len(told["input_top_logprobs"]) == length - start
            assert len(told["output_token_logprobs"]) == 8
            assert told["prompt_tokens"] == length


@ported(SOURCE, f"{CASES}test_cross_mode_logprob_mixed")
async def test_requests_of_every_kind_at_once(http: httpx.AsyncClient):
    cases = [
        case
        for case in itertools.product(
            [200, 500, 1000, 2000], [4, 8], [0, 100, 300, 800, 1998], [True, False], [0, 5]
        )
        if case[2] < case[0]
    ]
    eight = asyncio.Semaphore(8)

    async def check(inputs: int, outputs: int, start: int, wanted: bool, tops: int) -> None:
        ids = [token % 1500 for token in range(inputs)]
        async with eight:
            told = await generate(
                http, ids, outputs, return_logprob=wanted, logprob_start_len=start, top_logprobs_num=tops
            )
        assert told["prompt_tokens"] == inputs
        assert told["completion_tokens"] == outputs
        if not wanted:
            return
        assert len(told["input_token_logprobs"]) + start == inputs
        assert len(told["output_token_logprobs"]) == outputs
        if tops:
            assert len(told["input_top_logprobs"]) + start == inputs
            assert [len(entries) for entries in told["output_top_logprobs"]] == [tops] * outputs
            for chosen, likeliest in zip(
                told["output_token_logprobs"], told["output_top_logprobs"], strict=True
            ):
                assert chosen in [entry for entry in likeliest if entry[0] == likeliest[0][0]]

    await asyncio.gather(*(check(*case) for case in cases))
