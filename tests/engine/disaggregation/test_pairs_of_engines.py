"""Prompts prefilled by one engine and answered by another: the answers are those of one engine alone."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import Reference
from radixway.engine.sampling_params import SamplingParams
from support.driving import answers, random_tokens, tiny_core
from support.pairs import GREEDY, Pair, checked, pair, tokens, whole

Make = Callable[[str], Reference]
TOKEN_BYTES = 2 * 3 * 2 * 16 * 4  # keys and values, layers, KV heads, head size, bytes of a float


@pytest.fixture(scope="module")
def path(reference: Make) -> Path:
    return reference("qwen3")[0]


def alone(path: Path, prompts: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
    return answers(tiny_core(path, max_batch_tokens=64, **options), prompts, GREEDY)


async def both_checked(engines: Pair) -> None:
    for engine in (engines.prefill, engines.decode):
        await checked(engine)


@pytest.mark.parametrize("transfer", ["auto", "tcp"])
@pytest.mark.parametrize("kv_dtype", ["auto", "int8", "fp8"])
async def test_answers_are_those_of_one_engine_alone(path: Path, transfer: str, kv_dtype: str) -> None:
    prompts = [random_tokens(length, seed=length) for length in (33, 36, 37, 150, 300)]
    options = {"kv_cache_dtype": kv_dtype}
    with pair(path, disaggregation_transfer=transfer, **options) as engines:
        found = [tokens(await engines.answer(prompt)) for prompt in prompts]
        assert found == alone(path, prompts, **options)
        received = engines.received()
        assert (received.complete, received.failed) == (len(prompts), 0)
        assert received.tokens == sum(len(prompt) - 1 for prompt in prompts)
        assert engines.decode.stats().remote_tokens == received.tokens
        await both_checked(engines)
        assert engines.sent().complete == len(prompts)


@pytest.mark.parametrize(("theirs", "ours", "kv_dtype"), [(16, 4, "auto"), (4, 16, "int8"), (16, 4, "fp8")])
async def test_engines_with_pages_of_other_sizes_exchange_kv(
    path: Path, theirs: int, ours: int, kv_dtype: str
) -> None:
    whole = random_tokens(131, seed=131)
    prompts = [random_tokens(100, seed=100), whole[:70], whole]  # of the last the beginning is cached
    options = {"kv_cache_dtype": kv_dtype}
    with pair(path, prefill={"page_size": theirs}, decode={"page_size": ours}, **options) as engines:
        found = [tokens(await engines.answer(prompt)) for prompt in prompts]
        assert found == alone(path, prompts, **options)
        await both_checked(engines)
        assert engines.received().failed == 0


async def test_only_what_the_decode_engine_lacks_travels(path: Path) -> None:
    first, second = random_tokens(101), random_tokens(180)  # the first is the beginning of the second
    with pair(path) as engines:
        await engines.answer(first)
        before = engines.received().size_bytes
        outputs = await engines.answer(second)
        lacked = len(second) - 1 - outputs[-1].cached_tokens
        assert outputs[-1].cached_tokens >= 100 and outputs[-1].remote_tokens == lacked
        assert engines.received().size_bytes - before == lacked * TOKEN_BYTES
        again = await engines.answer(second)  # all of it is there, so nothing travels
        assert again[-1].remote_tokens == 0 and tokens(again) == tokens(outputs) == alone(path, [second])[0]
        assert engines.received().size_bytes - before == lacked * TOKEN_BYTES
        await both_checked(engines)


async def test_what_the_prefill_engine_has_cached_travels_at_once(path: Path) -> None:
    prompt = random_tokens(200)
    with pair(path) as engines:
        await whole(engines.prefill.submit_request(prompt, GREEDY))
        assert tokens(await engines.answer(prompt)) == alone(path, [prompt])[0]
        assert engines.prefill.stats().cached_tokens >= 196
        assert engines.received().tokens == 199


async def test_many_at_once_in_pools_that_hold_a_few(path: Path) -> None:
    shared = random_tokens(60, seed=1)
    prompts = [shared + random_tokens(20 + 7 * n, seed=n) for n in range(24)]
    sizes = {"prefill": {"kv_tokens": 700}, "decode": {"kv_tokens": 600}}
    with pair(path, **sizes, max_running=8) as engines:
        found = await asyncio.gather(*(engines.answer(prompt) for prompt in prompts))
        assert [tokens(outputs) for outputs in found] == alone(path, prompts)
        assert engines.received().failed == 0 and engines.received().complete > 0
        await both_checked(engines)


async def test_what_lower_tiers_have_comes_from_there_and_the_rest_from_the_prefill_engine(
    path: Path,
) -> None:
    long = random_tokens(300)
    prompts = [long[:200], random_tokens(380, seed=1), long]
    with pair(path, decode={"kv_tokens": 400, "host_cache_gb": 0.01}) as engines:
        found = [await engines.answer(prompt) for prompt in prompts]
        assert [tokens(outputs) for outputs in found] == alone(path, prompts)
        last = found[-1][-1]
        assert last.host_tokens >= 150 and last.remote_tokens > 0
        assert last.cached_tokens + last.remote_tokens == len(long) - 1
        await both_checked(engines)


async def test_a_prefill_engine_stops_after_the_first_token(path: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=50, min_tokens=20, ignore_eos=True)
    with pair(path) as engines:
        prefilling, answering = engines.begin(random_tokens(40), params)
        assert len(tokens(await whole(prefilling))) == 1
        assert len(tokens(await whole(answering))) == 50


async def test_what_is_cheaper_to_compute_does_not_travel_and_nobody_waits_for_it(path: Path) -> None:
    with pair(path) as engines:
        prompt = random_tokens(20)
        assert tokens(await engines.answer(prompt)) == alone(path, [prompt])[0]
        await both_checked(engines)
        assert engines.sent().complete == 1 and engines.sent().size_bytes == 0
        assert engines.received().complete + engines.received().failed == 0


async def test_an_engine_that_does_both_takes_no_notice_of_rooms(path: Path) -> None:
    with pair(path, decode={"disaggregation_mode": "null"}) as engines:
        prompt = random_tokens(50)
        answering = engines.decode.submit_request(prompt, GREEDY, room=engines.room())
        assert tokens(await whole(answering)) == alone(path, [prompt])[0]
        assert engines.decode.stats().transfers is None
