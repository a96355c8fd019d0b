"""Updates and pauses in the middle of things: no token is lost, and none is made by two versions at once."""

import random
from dataclasses import replace

import pytest

from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest, RequestOutput
from radixway.engine.weight_update import DiskWeights
from support.driving import GREEDY, answers, finish, random_tokens, step, submit, tiny_core
from support.policies import Policies

LONG = replace(GREEDY, max_tokens=24)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    return Policies(tmp_path_factory.mktemp("policies"))


def update(core: EngineCore, policies: Policies, version: int, *, keep_kv: bool = False) -> None:
    weights = DiskWeights(str(policies.path(version)))
    model = weights.load_weights(core.runner.model)
    core.update_weights(model, path=weights.path, version=str(version), keep_kv=keep_kv)
    core.scheduler.check()


def answer(request: EngineRequest) -> list[int]:
    return list(request.tokens[request.prompt_len :])


def spans(request: EngineRequest) -> list[tuple[int, int, int]]:
    """(version, start, end) of its answer."""
    changes = request.weight_changes
    ends = [*(start for start, _ in changes[1:]), request.completion_tokens]
    return [(int(version), start, end) for (start, version), end in zip(changes, ends, strict=True)]


@pytest.mark.parametrize("keep_running", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_what_was_paused_goes_on_as_if_it_had_not_been(
    policies: Policies, keep_running: bool, steps: int
) -> None:
    prompts = [random_tokens(length, length) for length in (3, 40, 41, 90)]
    expected = answers(tiny_core(policies.path(0)), prompts, LONG)
    core = tiny_core(policies.path(0), max_batch_tokens=32, max_running=4)
    requests = [submit(core, prompt, LONG) for prompt in prompts[:3]]
    for _ in range(steps):
        step(core)
    core.pause_scheduling(keep_running=keep_running)
    assert not core.has_work and bool(core.scheduler.running) == keep_running
    assert core.flush_cache() != keep_running  # what is in use stays
    requests.append(submit(core, prompts[3], LONG))  # who comes meanwhile waits
    assert not core.has_work and core.stats().paused
    core.scheduler.check()
    core.resume_scheduling()
    finish(core)
    assert [answer(request) for request in requests] == expected
    assert core.stats().kv_used == 0


def test_paused_requests_can_be_aborted(policies: Policies) -> None:
    core = tiny_core(policies.path(0))
    running = submit(core, random_tokens(20), LONG)
    step(core)
    core.pause_scheduling(keep_running=True)
    waiting = submit(core, random_tokens(20, 1), LONG)
    for request in (running, waiting):
        assert core.abort_request(request) is not None
    core.scheduler.check()
    core.resume_scheduling()
    assert not core.has_work and core.stats().kv_used == 0


def test_after_an_update_everything_is_computed_by_the_new_weights(policies: Policies) -> None:
    prompt = random_tokens(40)
    core = tiny_core(policies.path(0), weight_version="0")
    running, before = submit(core, prompt, LONG), submit(core, prompt, replace(LONG, max_tokens=3))
    for _ in range(6):
        step(core)
    update(core, policies, 1)
    assert core.stats().kv_cached == core.stats().kv_used == 0
    after = submit(core, prompt, LONG)
    finish(core)
    assert spans(before) == [(0, 0, 3)] and spans(after) == [(1, 0, 24)]
    [first, second] = spans(running)
    assert first[0] == 0 and second[0] == 1 and 0 < second[1] < 24
    for request in (before, running, after):
        policies.assert_made_by(spans(request), list(prompt), answer(request))


def test_only_who_was_running_keeps_old_kv_and_only_when_told_to(policies: Policies) -> None:
    prompt = random_tokens(40)
    core = tiny_core(policies.path(0), weight_version="0")
    running = submit(core, prompt, LONG)
    for _ in range(6):
        step(core)
    computed = running.num_computed_tokens
    update(core, policies, 1, keep_kv=True)
    assert running.num_computed_tokens == computed
    later = [submit(core, prompt, LONG), submit(core, list(prompt) + answer(running)[:4], LONG)]
    step(core)
    assert later[0].cached_tokens == 0
    finish(core)
    third = submit(core, prompt, LONG)
    finish(core)
    assert third.cached_tokens > 0  # among themselves, they share
    for request in (*later, third):
        prompt_of = list(request.tokens[: request.prompt_len])
        policies.assert_made_by([(1, 0, 24)], prompt_of, answer(request))
    assert [version for version, _, _ in spans(running)] == [0, 1]
    assert answer(running)[: spans(running)[0][2]] == policies.greedy(0, list(prompt), spans(running)[0][2])


def test_old_kv_is_gone_for_who_was_preempted_or_waited(policies: Policies) -> None:
    """`keep_kv` speaks of running requests; others begin anew, with the new weights alone."""
    core = tiny_core(policies.path(0), weight_version="0", max_running=1)
    first, waiting = submit(core, random_tokens(40), LONG), submit(core, random_tokens(40), LONG)
    for _ in range(4):
        step(core)
    core.pause_scheduling(keep_running=False)
    update(core, policies, 1, keep_kv=True)
    core.resume_scheduling()
    finish(core)
    for request in (first, waiting):
        policies.assert_made_by(spans(request), list(request.tokens[:40]), answer(request))


@pytest.mark.parametrize("keep_kv", [False, True])
def test_a_prompt_that_is_being_scored_is_scored_by_one_version(policies: Policies, keep_kv: bool) -> None:
    prompt = random_tokens(60)
    scored = replace(GREEDY, prompt_logprobs=0)
    core = tiny_core(policies.path(0), max_batch_tokens=16, max_running=4)
    submit(core, prompt, scored)
    step(core)
    step(core)
    update(core, policies, 1, keep_kv=keep_kv)
    found = finish(core)[0].prompt_logprobs
    fresh = tiny_core(policies.path(1))
    submit(fresh, prompt, scored)
    expected = finish(fresh)[0].prompt_logprobs
    assert len(found) == 59
    assert [item.logprob for item in found] == pytest.approx([item.logprob for item in expected], abs=1e-4)


def test_a_version_is_a_name_that_can_change_alone(policies: Policies) -> None:
    core = tiny_core(policies.path(0), weight_version="a")
    request = submit(core, random_tokens(20), LONG)
    outputs = step(core)
    core.set_weight_version("b")
    outputs += finish(core)
    assert answer(request) == answers(tiny_core(policies.path(0)), [random_tokens(20)], LONG)[0]
    assert request.weight_changes == ((0, "a"), (1, "b"))
    assert [output.weight_version for output in outputs] == ["a"] + ["b"] * 23
    assert core.model_info.weight_version == "b"


@pytest.mark.parametrize("seed", range(4))
def test_random_updates_under_load_never_mix_versions(policies: Policies, seed: int) -> None:
    rng = random.Random(seed)
    options = {
        "kv_tokens": rng.choice([160, 1024]),
        "max_batch_tokens": rng.choice([12, 512]),
        "max_running": 6,
    }
    core = tiny_core(policies.path(0), weight_version="0", **options)
    shared = [list(random_tokens(30, s)) for s in range(2)]
    requests: list[EngineRequest] = []
    outputs: list[RequestOutput] = []
    now = 0
    for turn in range(120):
        if turn < 90 and rng.random() < 0.4:
            prompt = rng.choice(shared)[: rng.randint(1, 30)] + list(random_tokens(rng.randint(1, 20), turn))
            requests.append(submit(core, prompt, replace(LONG, max_tokens=rng.randint(1, 24))))
        if rng.random() < 0.1:
            now = rng.randrange(3)
            update(core, policies, now)
        if rng.random() < 0.05:
            core.pause_scheduling(keep_running=rng.random() < 0.5)
            core.scheduler.check()
        if rng.random() < 0.2:
            core.resume_scheduling()
        if core.has_work:
            outputs += step(core)
    core.resume_scheduling()
    outputs += finish(core)
    assert len(requests) > 20 and sum(len(spans(request)) > 1 for request in requests) > 3
    for request in requests:
        prompt = list(request.tokens[: request.prompt_len])
        policies.assert_made_by(spans(request), prompt, answer(request))
        made = [output.weight_version for output in outputs if output.request_id == request.id]
        assert made == [str(version) for version, start, end in spans(request) for _ in range(start, end)]
    assert core.flush_cache() and core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total
