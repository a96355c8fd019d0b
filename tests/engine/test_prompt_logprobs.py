"""Log-probabilities of prompts: those of `transformers`, whatever is cached, cut into chunks or preempted."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.conftest import Reference
from radixway.engine import logprobs
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import TokenLogprob
from radixway.engine.errors import InvalidRequestError
from radixway.engine.sampling_params import SamplingParams
from support.driving import GREEDY, finish, random_tokens, step, submit, tiny_core

Make = Callable[[str], Reference]
SCORED = replace(GREEDY, prompt_logprobs=0)


def expected(reference: Reference, prompt: Sequence[int]) -> Tensor:
    """[len(prompt), vocabulary]: row j says how likely each token is after prompt[: j + 1]."""
    with torch.no_grad():
        logits: Tensor = reference[1](torch.tensor([list(prompt)])).logits[0]
    return logits.log_softmax(-1)


def scored(core: EngineCore, prompt: Sequence[int], params: SamplingParams = SCORED) -> list[TokenLogprob]:
    """What the prompt's tokens are said to be worth, checked to come with the first output."""
    submit(core, prompt, params)
    first, *rest = finish(core)
    assert not any(output.prompt_logprobs for output in rest)
    return list(first.prompt_logprobs)


def assert_right(
    given: Sequence[TokenLogprob], reference: Reference, prompt: Sequence[int], start: int = 0
) -> None:
    assert [item.token_id for item in given] == list(prompt[start + 1 :])
    rows = expected(reference, prompt)
    for position, item in enumerate(given, start + 1):
        row = rows[position - 1]
        assert item.logprob == pytest.approx(float(row[prompt[position]]), abs=1e-4)
        assert item.rank == int((row > row[prompt[position]]).sum()) + 1


@pytest.mark.parametrize("options", [{}, {"max_batch_tokens": 7, "max_running": 4}, {"radix_cache": False}])
def test_every_token_but_the_first_is_scored(reference: Make, options: dict[str, int]) -> None:
    prompt = random_tokens(50)
    core = tiny_core(reference("qwen3")[0], **options)
    assert_right(scored(core, prompt), reference("qwen3"), prompt)
    assert_right(scored(core, prompt), reference("qwen3"), prompt)  # it is cached by now


def test_only_what_comes_before_the_start_is_taken_from_the_cache(reference: Make) -> None:
    prompt = random_tokens(50)
    core = tiny_core(reference("qwen3")[0])
    scored(core, prompt, GREEDY)
    for start, cached in ((0, 0), (3, 0), (4, 4), (22, 20), (48, 48), (49, 48)):
        request = submit(core, prompt, replace(SCORED, prompt_logprobs_start=start))
        first = finish(core)[0]
        assert request.cached_tokens == cached
        assert_right(first.prompt_logprobs, reference("qwen3"), prompt, start)


def test_alternatives_and_named_tokens_come_with_each(reference: Make) -> None:
    prompt = random_tokens(20)
    params = replace(SCORED, prompt_logprobs=3, logprob_ids=(7, 250), logprobs=0)
    core = tiny_core(reference("qwen3")[0])
    submit(core, prompt, params)
    outputs = finish(core)
    rows = expected(reference("qwen3"), prompt)
    for row, item in zip(rows, outputs[0].prompt_logprobs, strict=False):
        assert [token for token, _ in item.top] == row.topk(3).indices.tolist()
        assert item.named == tuple((i, pytest.approx(float(row[i]), abs=1e-4)) for i in (7, 250))
    [sampled] = outputs[0].logprobs
    assert sampled.named == tuple((i, pytest.approx(float(rows[-1][i]), abs=1e-4)) for i in (7, 250))
    assert sampled.top == ()


def test_logits_of_a_long_prompt_never_exist_all_at_once(
    reference: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = random_tokens(200)
    core = tiny_core(reference("qwen3")[0])
    monkeypatch.setattr(logprobs, "MAX_LOGITS", 16 * 320)
    sizes = []
    head = core.runner.model.head

    def watched(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return head(x)

    core.runner.model.head = watched  # type: ignore[assignment]
    assert_right(scored(core, prompt), reference("qwen3"), prompt)
    assert max(sizes) == 16 and sum(sizes) >= 199


def test_a_preempted_prompt_goes_on_where_it_was_and_scores_nothing_twice(reference: Make) -> None:
    prompts = [random_tokens(60, seed) for seed in range(4)]
    core = tiny_core(reference("qwen3")[0], kv_tokens=140, max_batch_tokens=16, max_running=4)
    requests = [submit(core, prompt, replace(SCORED, max_tokens=20)) for prompt in prompts]
    first: dict[str, Sequence[TokenLogprob]] = {}
    while core.has_work:
        for output in step(core):
            first.setdefault(output.request_id, output.prompt_logprobs)
        for request in core.scheduler.running.values():  # and at the worst moments
            if (
                request.id not in first
                and request.num_computed_tokens > 20
                and core.scheduler.preemptions < 6
            ):
                core.scheduler._preempt_request(request)
                break
    assert core.scheduler.preemptions >= 6
    for request, prompt in zip(requests, prompts, strict=True):
        assert_right(first[request.id], reference("qwen3"), prompt)


def test_equal_prompts_that_are_all_scored_do_not_wait_for_each_other(reference: Make) -> None:
    prompt = random_tokens(30)
    core = tiny_core(reference("qwen3")[0])
    for _ in range(6):
        submit(core, prompt, replace(SCORED, max_tokens=1))
    assert len(step(core)) == 6
    assert not core.has_work


def test_a_scored_prompt_without_an_answer(reference: Make) -> None:
    prompt = random_tokens(30)
    core = tiny_core(reference("qwen3")[0])
    submit(core, prompt, replace(SCORED, max_tokens=0))
    [only] = finish(core)
    assert only.token_ids == [] and only.finish is not None and only.finish.type == "length"
    assert_right(only.prompt_logprobs, reference("qwen3"), prompt)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": 0, "prompt_logprobs_start": -1}, "prompt_logprobs_start"),
        ({"prompt_logprobs": 0, "prompt_logprobs_start": 5}, "prompt_logprobs_start"),
        ({"logprob_ids": (400,)}, "logprob_ids"),
        ({"logprob_ids": tuple(range(101))}, "logprob_ids"),
    ],
)
def test_what_cannot_be_scored_is_refused(reference: Make, options: dict[str, int], field: str) -> None:
    core = tiny_core(reference("qwen3")[0])
    with pytest.raises(InvalidRequestError) as error:
        submit(core, random_tokens(5), SamplingParams(max_tokens=1, **options))  # type: ignore[arg-type]
    assert error.value.field == field and len(str(error.value)) < 120
