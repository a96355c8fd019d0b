"""Beams are the likeliest answers, and their log-probabilities the model's own."""

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from radixway.engine.engine_request import TokenLogprob
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.beam_search import BeamGroup
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.generation_group import GenerationGroup
from support.server_served import Served

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PROMPT = "A prefix cache keeps"
EOS, LENGTH = 3, 4
JOB = GenerationJob([0] * 3, SamplingParams(), "r")


def next_logprobs(tokens: tuple[int, ...]) -> list[tuple[int, float]]:
    """The four tokens of a model, with their log-probabilities after `tokens`, likeliest first."""
    drawn = random.Random(repr(tokens))
    pairs = [(token, -drawn.expovariate(0.5)) for token in range(4)]
    return sorted(pairs, key=lambda pair: -pair[1])


def every_answer() -> dict[tuple[int, ...], float]:
    """All answers of at most `LENGTH` tokens, with their log-probabilities."""
    found = {}
    for length in range(1, LENGTH + 1):
        for tokens in itertools.product(range(4), repeat=length):
            if EOS not in tokens[:-1] and (tokens[-1] == EOS or length == LENGTH):
                steps = ((tokens[:at], tokens[at]) for at in range(length))
                found[tokens] = sum(dict(next_logprobs(before))[token] for before, token in steps)
    return found


@pytest.mark.parametrize("penalty", [1.0, 0.0, -1.0, 2.0])
@pytest.mark.parametrize("answers", [1, 5, 500])
def test_beams_enough_for_all_find_the_best_answers(penalty: float, answers: int) -> None:
    group = BeamGroup(JOB, max_tokens=LENGTH, length_penalty=penalty, width=500)
    while group.open:
        group.keep_best(
            [
                longer
                for beam in group.open
                for longer in group.add_candidates(
                    beam, TokenLogprob(0, 0.0, tuple(next_logprobs(tuple(beam.token_ids)))), frozenset({EOS})
                )
            ]
        )

    def rank(item: tuple[tuple[int, ...], float]) -> float:
        tokens, total = item
        return -total / (len(JOB.prompt_ids) + len(tokens) - (tokens[-1] == EOS)) ** penalty

    best = sorted(every_answer().items(), key=rank)[:answers]
    found = [(tuple(beam.token_ids), beam.total) for beam in group.ended[:answers]]
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in best]
    assert [total for _, total in found] == pytest.approx([total for _, total in best])


def test_few_beams_stop_early_only_where_none_could_be_better() -> None:
    stopped = 0
    for width in (1, 2, 3):
        groups = [BeamGroup(JOB, LENGTH, 1.0, width) for _ in range(2)]
        patient = groups[1]
        for group in groups:
            while group.open:
                steps = [(b, tuple(next_logprobs(tuple(b.token_ids)))) for b in group.open]
                candidates = [
                    longer
                    for beam, top in steps
                    for longer in group.add_candidates(beam, TokenLogprob(0, 0.0, top), frozenset({EOS}))
                ]
                group.keep_best(candidates)
                if group is patient and not group.open and candidates:
                    length = len(candidates[0].logprobs)
                    if length < LENGTH:  # go on in spite of the bound
                        stopped += 1
                        group.open = sorted(candidates, key=lambda beam: -beam.total)[:width]
        assert [b.token_ids for b in groups[0].ended] == [b.token_ids for b in patient.ended]
    assert stopped


def test_wide_beams_share_what_they_have_in_common() -> None:
    """Candidates are made by the thousand in each step: none may copy what its beam has so far."""
    group = BeamGroup(JOB, max_tokens=99, length_penalty=1.0, width=128, num_top=2)
    top = tuple((token, -0.1 * token) for token in range(256))
    for length in range(1, 6):
        candidates = [
            longer
            for beam in group.open
            for longer in group.add_candidates(beam, TokenLogprob(0, 0.0, top), frozenset())
        ]
        assert len({id(beam.parent) for beam in candidates}) == len(group.open)
        group.keep_best(candidates)
        assert all(beam.num_tokens == len(beam.token_ids) == length for beam in group.open)
    assert all(item.top == top[:2] for item in group.open[0].logprobs), "what is not told is not kept"


over_http = pytest.mark.asyncio(loop_scope="session")


async def search(guide: Served, **fields: Any) -> Any:
    body = {"prompt": PROMPT, "max_tokens": 6, "n": 3, "use_beam_search": True, "logprobs": 2, **fields}
    response = await guide.post(COMPLETIONS, body)
    assert response.status_code == 200, response.text
    return response.json()


@over_http
async def test_the_answers_are_the_models_and_the_best_comes_first(guide: Served) -> None:
    reply = await search(guide, ignore_eos=True, return_token_ids=True)
    totals = []
    for index, choice in enumerate(reply["choices"]):
        assert (choice["index"], choice["finish_reason"]) == (index, "length")
        ids, prompt = choice["token_ids"], choice["prompt_token_ids"]
        told = choice["logprobs"]["token_logprobs"]
        scoring = {"prompt": prompt + ids, "max_tokens": 1, "prompt_logprobs": 0}
        scored = (await guide.post(COMPLETIONS, scoring)).json()["choices"][0]["prompt_logprobs"]
        theirs = [entry[str(token)]["logprob"] for token, entry in zip(ids, scored[-6:], strict=True)]
        assert told == pytest.approx(theirs, abs=1e-3)
        totals.append(sum(told))
        assert all(len(top) in (2, 3) for top in choice["logprobs"]["top_logprobs"])
    assert totals == sorted(totals, reverse=True)
    assert len({choice["text"] for choice in reply["choices"]}) == 3
    assert reply["usage"]["completion_tokens"] == 18
    greedy = {"prompt": PROMPT, "max_tokens": 6, "temperature": 0, "logprobs": 0, "ignore_eos": True}
    alone = (await guide.post(COMPLETIONS, greedy)).json()["choices"][0]["logprobs"]["token_logprobs"]
    assert totals[0] >= sum(alone) - 1e-3


def requests_measured(guide: Served) -> float:
    metrics = guide.app.service.metrics.latency_s.collect()
    return sum(each.value for metric in metrics for each in metric.samples if each.name.endswith("_count"))


@over_http
async def test_each_prompt_has_its_beams(guide: Served) -> None:
    before = requests_measured(guide)
    reply = await search(guide, prompt=[PROMPT, PROMPT], n=2)
    assert requests_measured(guide) == before + 1, "its steps are no requests"
    texts = [choice["text"] for choice in reply["choices"]]
    assert texts[:2] == texts[2:] and texts[0] != texts[1]
    body = {"messages": [{"role": "user", "content": "hi"}], "n": 2, "max_tokens": 4, "use_beam_search": True}
    chat = (await guide.post(CHAT, body)).json()
    contents = [choice["message"]["content"] for choice in chat["choices"]]
    assert len(set(contents)) == 2 and chat["usage"]["completion_tokens"] <= 8


@over_http
async def test_a_stop_token_ends_a_beam(guide: Served) -> None:
    ids = (await search(guide, n=1, return_token_ids=True, ignore_eos=True))["choices"][0]["token_ids"]
    reply = await search(guide, return_token_ids=True, stop_token_ids=[ids[2]], ignore_eos=True)
    answers = [choice["token_ids"] for choice in reply["choices"]]
    stopped = [choice for choice in reply["choices"] if choice["finish_reason"] == "stop"]
    assert stopped and all(choice["stop_reason"] == ids[2] for choice in stopped)
    assert all(ids[2] not in answer[:-1] for answer in answers)


@over_http
async def test_a_search_keeps_its_id_and_can_be_aborted_between_two_steps(
    guide: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, others, aborted = EngineService.start_generations, [], []

    @asynccontextmanager
    async def start_step(service: EngineService, *args: Any, **fields: Any) -> AsyncIterator[GenerationGroup]:
        async with start(service, *args, **fields) as answers:
            yield answers
        if fields.get("is_step"):
            others.append(await guide.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1, "rid": "mine"}))
            if len(others) == 2:
                aborted.append((await guide.post("/abort_request", {"rid": "mine"})).json()["aborted"])

    monkeypatch.setattr(EngineService, "start_generations", start_step)
    reply = await search(guide, rid="mine", max_tokens=50, ignore_eos=True)
    assert {other.json()["error"]["code"] for other in others} == {"duplicate_request_id"}
    assert len(others) == 2 and aborted == [1]
    assert {choice["finish_reason"] for choice in reply["choices"]} == {"abort"}
    assert reply["choices"][0]["logprobs"]["token_logprobs"]
    assert (await search(guide, rid="mine"))["choices"], "the id is free again"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "use_beam_search"),
        ({"stop": "x"}, "use_beam_search"),
        ({"guided_regex": "a"}, "use_beam_search"),
        ({"presence_penalty": 1}, "use_beam_search"),
        ({"prompt_logprobs": 0}, "use_beam_search"),
        ({"length_penalty": 1e9}, "length_penalty"),
        ({"use_beam_search": False, "length_penalty": 0.5}, "length_penalty"),
        ({"max_tokens": 10**6}, "max_tokens"),
    ],
)
@over_http
async def test_what_beams_cannot_follow_is_refused(guide: Served, fields: dict[str, Any], param: str) -> None:
    response = await guide.post(COMPLETIONS, {"prompt": "x", "use_beam_search": True, **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param), response.text
