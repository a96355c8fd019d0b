"""The engine without its thread: what it answers, and that sharing changes nothing about that."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from engine.conftest import Reference
from radixway.engine import sampler
from radixway.engine.attention import CpuAttention, SdpaAttention
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest, RequestOutput
from radixway.engine.errors import ContextLengthError, InvalidRequestError
from radixway.engine.sampling_params import SamplingParams
from support.driving import GREEDY, answers, finish, random_tokens, step, submit, tiny_core

Make = Callable[[str], Reference]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_greedy_answers_are_those_of_transformers(reference: Make, family: str) -> None:
    path, model = reference(family)
    prompts = [random_tokens(length, seed=length) for length in (3, 17, 40)]
    ours = answers(tiny_core(path), prompts, SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    for prompt, answer in zip(prompts, ours, strict=True):
        whole = model.generate(
            torch.tensor([list(prompt)]),
            max_new_tokens=20,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert whole[0, len(prompt) :].tolist() == answer


def chats(count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of which many begin alike."""
    pick = random.Random(seed)
    systems = [random_tokens(length, seed=length) for length in (0, 9, 30)]
    return [
        [*pick.choice(systems), *random_tokens(pick.randint(1, 30), seed=pick.randrange(8))]
        for _ in range(count)
    ]


def one_at_a_time(
    core: EngineCore, prompts: Sequence[Sequence[int]], params: SamplingParams
) -> list[list[int]]:
    return [answers(core, [prompt], params)[0] for prompt in prompts]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all at once"),
        pytest.param({"max_batch_tokens": 7, "max_running": 5}, id="in small chunks"),
        pytest.param({"kv_tokens": 120}, id="in a tiny pool, preempting"),
        pytest.param({"page_size": 1, "kv_tokens": 120}, id="in pages of one token"),
        pytest.param({"radix_cache": False, "kv_tokens": 120}, id="without the cache, in a tiny pool"),
        pytest.param({"schedule": "fcfs", "page_size": 16}, id="first come first served"),
    ],
)
def test_answers_are_the_same_with_everything_on_as_alone_with_everything_off(
    reference: Make, options: dict[str, Any]
) -> None:
    path, _ = reference("qwen3")
    prompts = chats(24)
    params = SamplingParams(temperature=0, max_tokens=15, ignore_eos=True)
    expected = one_at_a_time(tiny_core(path, radix_cache=False), prompts, params)
    core = tiny_core(path, **options)
    assert answers(core, prompts, params) == expected
    assert answers(core, prompts, params) == expected, "and again, with all of it cached"
    if "kv_tokens" in options:
        assert core.stats().preemptions


def test_seeded_answers_are_the_same_in_any_company(reference: Make) -> None:
    path, _ = reference("qwen2")
    prompts = chats(6)
    params = SamplingParams(temperature=1.2, top_p=0.9, seed=7, max_tokens=12, ignore_eos=True)
    alone = one_at_a_time(tiny_core(path, radix_cache=False), prompts, params)
    assert answers(tiny_core(path, kv_tokens=150), prompts, params) == alone


def test_without_a_seed_answers_differ_and_the_engines_seed_repeats_them(reference: Make) -> None:
    path, _ = reference("qwen2")
    prompt = random_tokens(10)
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    first = answers(tiny_core(path), [prompt] * 3, params)
    assert len({tuple(answer) for answer in first}) == 3
    assert answers(tiny_core(path), [prompt] * 3, params) == first
    assert answers(tiny_core(path, seed=1), [prompt] * 3, params) != first


def test_n_samples_of_one_prompt_cost_one_prefill(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    answers(core, [random_tokens(101)] * 8)
    stats = core.stats()
    assert stats.prompt_tokens == 8 * 101
    assert stats.cached_tokens == 7 * 100


def test_the_next_turn_hits_prompt_and_answer(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    first = submit(core, random_tokens(30))
    finish(core)
    second = submit(core, [*first.tokens, *random_tokens(5, 1)])
    finish(core)
    assert second.cached_tokens == (30 + 7) // 4 * 4, "all but the last token of the answer, in full pages"


def outputs_of(core: EngineCore, prompt: Sequence[int], params: SamplingParams) -> list[RequestOutput]:
    submit(core, prompt, params)
    return finish(core)


def test_each_output_is_what_one_step_added(reference: Make) -> None:
    core = tiny_core(reference("llama")[0], weight_version="v3")
    outputs = outputs_of(core, random_tokens(10), GREEDY)
    assert [len(output.token_ids) for output in outputs] == [1] * 8
    assert [output.completion_tokens for output in outputs] == list(range(1, 9))
    assert [output.finish is None for output in outputs] == [True] * 7 + [False]
    assert {(o.prompt_tokens, o.cached_tokens, o.weight_version) for o in outputs} == {(10, 0, "v3")}


def test_length_stop_ids_and_end_of_sequence_end_an_answer(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    prompt = random_tokens(12)
    tokens = [output.token_ids[0] for output in outputs_of(core, prompt, GREEDY)]
    stop = tokens[3]
    at = tokens.index(stop)

    def end(**params: Any) -> RequestOutput:
        outputs = outputs_of(core, prompt, SamplingParams(temperature=0, max_tokens=8, **params))
        assert all(output.finish is None for output in outputs[:-1])
        return outputs[-1]

    by_id = end(stop_token_ids=frozenset({stop}))
    assert by_id.finish is not None and by_id.finish.type == "stop" and by_id.finish.matched == stop
    assert by_id.token_ids == [stop] and by_id.completion_tokens == at + 1
    by_length = end(ignore_eos=True)
    assert by_length.finish is not None and by_length.finish.type == "length"
    by_eos = end(logit_bias={2: 1000.0})
    assert by_eos.finish is not None and by_eos.finish.matched == 2
    later = end(logit_bias={2: 1000.0}, min_tokens=3)
    assert later.completion_tokens == 4 and later.finish == by_eos.finish


def test_no_tokens_wanted_is_an_answer_too(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    (output,) = outputs_of(core, random_tokens(12), SamplingParams(max_tokens=0))
    assert output.token_ids == [] and output.finish is not None and output.finish.type == "length"
    assert core.stats().kv_cached == 12


def test_without_a_limit_the_context_is_one(reference: Make) -> None:
    core = tiny_core(reference("llama")[0], context_length=40)
    outputs = outputs_of(core, random_tokens(12), SamplingParams(ignore_eos=True))
    assert outputs[-1].completion_tokens == 28


def test_a_model_that_computes_no_numbers_ends_its_answers_in_words(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    core.runner.model.norm.fill_(torch.nan)
    for params in (GREEDY, SamplingParams(temperature=1.0, top_p=0.5, max_tokens=3, logprobs=2)):
        (output,) = outputs_of(core, random_tokens(12), params)
        assert output.finish is not None and output.finish.type == "abort"
        assert output.finish.message is not None and "not a number" in output.finish.message


@pytest.mark.parametrize("attention", [CpuAttention, SdpaAttention])
def test_a_prompt_that_gives_no_numbers_harms_nobody_before_or_after_it(
    reference: Make, attention: type[CpuAttention] | type[SdpaAttention]
) -> None:
    path, _ = reference("llama")
    prompts = [random_tokens(length, seed=length, vocabulary=319) for length in (3, 9, 14)]
    expected = answers(tiny_core(path), prompts)
    core = tiny_core(path, kv_tokens=64)
    core.runner.attention = attention(core.runner.attention._store)  # type: ignore[attr-defined]
    core.runner.model.embedding[319] = torch.nan
    bystander = submit(core, prompts[0])
    for _ in range(4):
        submit(core, [319] * 15, SamplingParams(temperature=0, max_tokens=1))
    assert sum(o.finish.type == "abort" for o in finish(core) if o.finish is not None) == 4
    assert list(bystander.tokens[3:]) == expected[0]
    core.flush_cache()
    assert answers(core, prompts) == expected


class Letters:
    """Text of one letter for each token, and a stop string."""

    def __init__(self, params: SamplingParams) -> None:
        self.matched_stop: str | None = None
        self._stops = params.stop
        self._text = ""

    def feed(self, token_ids: Sequence[int]) -> str:
        new = "".join(chr(97 + token % 26) for token in token_ids)
        self._text += new
        self.matched_stop = next((stop for stop in self._stops if stop in self._text), None)
        return new

    def flush(self) -> str:
        return "."


def with_letters(core: EngineCore) -> EngineCore:
    core._text = Letters
    return core


def test_text_comes_with_the_tokens_and_a_stop_string_ends_it_at_its_token(reference: Make) -> None:
    core = with_letters(tiny_core(reference("llama")[0]))
    prompt = random_tokens(12)
    outputs = outputs_of(core, prompt, GREEDY)
    text = "".join(output.text for output in outputs)
    assert len(text) == 9 and text.endswith(".")
    stopped = outputs_of(core, prompt, SamplingParams(temperature=0, ignore_eos=True, stop=(text[2:5],)))
    assert stopped[-1].finish is not None and stopped[-1].finish.matched == text[2:5]
    assert stopped[-1].completion_tokens == text.index(text[2:5]) + 3


def test_a_stop_token_is_no_text_unless_asked_for(reference: Make) -> None:
    core = with_letters(tiny_core(reference("llama")[0]))
    params: dict[str, Any] = {"logit_bias": {2: 1000.0}, "max_tokens": 5}
    (output,) = outputs_of(core, random_tokens(12), SamplingParams(**params))
    assert (output.token_ids, output.text) == ([2], ".")
    (output,) = outputs_of(core, random_tokens(12), SamplingParams(include_stop=True, **params))
    assert (output.token_ids, output.text) == ([2], "c.")


@pytest.mark.parametrize(
    ("field", "prompt", "params"),
    [
        ("prompt", [], {}),
        ("prompt", [1, 320], {}),
        ("prompt", [1, -1], {}),
        ("prompt", [1] * 512, {}),
        ("max_tokens", [1] * 500, {"max_tokens": 13}),
        ("stop_token_ids", [1], {"stop_token_ids": frozenset({320})}),
        ("logit_bias", [1], {"logit_bias": {320: 1.0}}),
        ("stop", [1], {"stop": ("x",)}),
    ],
)
def test_what_can_never_be_served_is_refused_naming_the_field(
    reference: Make, field: str, prompt: list[int], params: dict[str, Any]
) -> None:
    core = tiny_core(reference("llama")[0])
    with pytest.raises(InvalidRequestError) as caught:
        submit(core, prompt, SamplingParams(**params))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1e-40},
        {"temperature": 1e-5, "logit_bias": {5: 1e4, 6: -1e4}},
        {"temperature": 100.0, "min_tokens": 5, "stop_token_ids": frozenset(range(100))},
        {"top_p": 1e-6},
        {"top_p": 1e-6, "top_k": 1, "min_p": 1.0},
        {"top_k": 2**31 - 1},
        {"repetition_penalty": 0.01, "temperature": 1e-5},
        {"repetition_penalty": 100.0, "presence_penalty": -2.0, "frequency_penalty": -2.0},
        {"seed": 2**64 - 1},
        {"stop_token_ids": frozenset(range(1, 320)), "min_tokens": 5, "logprobs": 100},
        {"min_p": 1e-46, "logprobs": 0},
    ],
)
def test_parameters_at_their_limits_harm_nobody_else(reference: Make, params: dict[str, Any]) -> None:
    path, _ = reference("llama")
    bystander = random_tokens(9)
    (expected,) = answers(tiny_core(path), [bystander])
    core = tiny_core(path)
    innocent = submit(core, bystander)
    extreme = submit(core, random_tokens(12, 1), SamplingParams(max_tokens=8, ignore_eos=True, **params))
    finish(core)
    assert list(innocent.tokens[9:]) == expected
    assert extreme.finish is not None and extreme.finish.type in ("length", "stop")
    assert extreme.completion_tokens >= params.get("min_tokens", 1)


def test_a_request_whose_sampling_fails_ends_alone_in_words(
    reference: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = reference("llama")
    bystander = random_tokens(9)
    (expected,) = answers(tiny_core(path), [bystander])
    core = tiny_core(path)

    def broken(request: EngineRequest) -> bool:
        if request.id == "bad" and request.completion_tokens == 3:
            raise RuntimeError("no such token")
        return False

    monkeypatch.setattr(sampler, "_may_not_end", broken)
    innocent, bad = submit(core, bystander), submit(core, random_tokens(12, 1), name="bad")
    last = [output for output in finish(core) if output.request_id == "bad"][-1]
    assert last.finish is not None and last.finish.type == "abort" and last.completion_tokens == 3
    assert last.finish.message is not None and "no such token" in last.finish.message
    assert bad.finish == last.finish and list(innocent.tokens[9:]) == expected
    assert core.stats().kv_used == 0


def test_tokens_are_not_required_where_every_one_would_end_the_answer(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    all_but_eos = frozenset(range(320)) - {2}
    with pytest.raises(InvalidRequestError, match="every token is a stop token") as caught:
        submit(core, [1], SamplingParams(min_tokens=1, stop_token_ids=all_but_eos))
    assert caught.value.field == "min_tokens"
    submit(core, [1], SamplingParams(stop_token_ids=all_but_eos))
    (output,) = finish(core)
    assert output.finish is not None and output.finish.type == "stop"


def test_a_context_too_long_says_how_long_it_may_be(reference: Make) -> None:
    core = tiny_core(reference("llama")[0], kv_tokens=100)
    with pytest.raises(ContextLengthError, match="120 tokens .* does not fit the context of 100 tokens"):
        submit(core, [1] * 120)
    submit(core, [1] * 92)
    finish(core)


def test_the_unfinished_are_aborted_with_what_they_have(reference: Make) -> None:
    core = tiny_core(reference("llama")[0])
    going, waiting = submit(core, random_tokens(12)), submit(core, random_tokens(12))
    step(core)
    for request, tokens in ((going, 1), (waiting, 0)):
        output = core.abort_request(request)
        assert output is not None and output.finish is not None and output.finish.type == "abort"
        assert output.completion_tokens == tokens
        assert core.abort_request(request) is None
    core.scheduler.check()
    assert not core.has_work and core.stats().kv_used == 0


def test_stats_count_what_was_done(reference: Make) -> None:
    core = tiny_core(reference("llama")[0], kv_tokens=256)
    answers(core, [random_tokens(20)] * 2)
    submit(core, random_tokens(20))
    step(core)
    stats = core.stats()
    assert (stats.requests, stats.running, stats.waiting) == (3, 1, 0)
    assert (stats.prompt_tokens, stats.cached_tokens) == (60, 32)
    assert stats.generated_tokens == 17
    assert stats.kv_total == 256 and 0 < stats.kv_used < 256 and stats.kv_cached >= 0


MOST = 30


def soak(core: EngineCore, expected: dict[tuple[int, ...], list[int]], count: int, seed: int) -> None:
    """Requests that come and are aborted at random; whoever finishes has the right answer."""
    pick = random.Random(seed)
    prompts = list(expected)
    live: dict[str, EngineRequest] = {}
    right = aborted = 0
    while core.has_work or count:
        if count and (not core.has_work or pick.random() < 0.3):
            count -= 1
            params = SamplingParams(temperature=0, max_tokens=pick.randint(1, MOST), ignore_eos=True)
            request = submit(
                core, pick.choice(prompts), params, name=f"s{count}", priority=pick.randint(0, 1)
            )
            live[request.id] = request
        if live and pick.random() < 0.03:
            aborted += core.abort_request(live.pop(pick.choice(list(live)))) is not None
            core.scheduler.check()
        for output in step(core):
            if output.finish is not None:
                request = live.pop(output.request_id)
                prompt, answer = request.tokens[: request.prompt_len], request.tokens[request.prompt_len :]
                assert list(answer) == expected[tuple(prompt)][: len(answer)]
                right += 1
    assert right > aborted > 0 and core.stats().preemptions
    core.flush_cache()
    assert core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total


def soak_in_a_tiny_pool(path: Any, count: int, seed: int) -> None:
    params = SamplingParams(temperature=0, max_tokens=MOST, ignore_eos=True)
    prompts = list({tuple(chat): None for chat in chats(40, seed)})
    alone = one_at_a_time(tiny_core(path, radix_cache=False), prompts, params)
    core = tiny_core(path, kv_tokens=100, max_running=6, max_batch_tokens=32)
    soak(core, dict(zip(prompts, alone, strict=True)), count, seed)


def test_random_traffic_with_aborts_in_a_tiny_pool_gives_no_wrong_token(reference: Make) -> None:
    soak_in_a_tiny_pool(reference("qwen3")[0], count=150, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_soak_of_thousands_of_requests_gives_no_wrong_token(reference: Make, seed: int) -> None:
    soak_in_a_tiny_pool(reference("qwen3")[0], count=1000, seed=seed)
