"""The modelled engine: times by hand for small cases, and its laws under random traffic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.routing.simulator import EngineConstants
from radixway.routing.simulator.engine_model import EngineModel, SimulatedRequest

BLOCK = 4
PLAIN = EngineConstants(
    step_s=1.0, prefill_s=0.1, decode_s=0.01, context_s=0.0, step_tokens=16, max_running=3
)


class Events:
    """What the cache holds, by its events alone."""

    def __init__(self):
        self.held = set()

    def note(self, stored, blocks):
        assert self.held.isdisjoint(blocks) if stored else self.held.issuperset(blocks), (stored, blocks)
        self.held = self.held | set(blocks) if stored else self.held - set(blocks)


def engine(kv_tokens=400, constants=PLAIN):
    events = Events()
    return EngineModel(constants, BLOCK, kv_tokens, events.note), events


def job(*blocks, extra=1, output=1):
    return SimulatedRequest(blocks, len(blocks) * BLOCK + extra, output, 0.0)


def finish(model):
    return [(when, done) for when, done in model.run_until(float("inf")) if done.finished]


def test_a_prompt_takes_as_many_steps_as_its_chunks_and_an_answer_one_for_each_further_token():
    model, _ = engine()
    asked = job(1, 2, 3, 4, 5, output=3)
    model.submit_request(asked, 10.0)
    finish(model)
    first = 10 + (1 + 16 * 0.1) + (1 + 5 * 0.1)
    assert asked.first_token == pytest.approx(first)
    assert asked.finished == pytest.approx(first + 2 * (1 + 0.01))
    assert model.busy_s == pytest.approx(asked.finished - 10)
    assert model.work_s == pytest.approx(21 * 0.1 + 2 * 0.01)


def test_a_cached_prefix_is_not_computed_but_the_last_token_always_is():
    model, _ = engine()
    model.submit_request(job(1, 2, 3), 0.0)
    finish(model)
    longer, whole = job(1, 2, 3, 4), job(1, 2, 3, extra=0)
    for asked, cached in ((longer, 12), (whole, 11)):
        model.submit_request(asked, model.now)
        finish(model)
        assert asked.cached_tokens == cached
    assert model.prefilled_tokens == 13 + 5 + 1


def test_a_prefilled_token_attends_to_those_before_it_cached_or_not():
    constants = EngineConstants(step_s=1.0, prefill_s=0, attention_s=0.01, step_tokens=8)
    model, _ = engine(constants=constants)
    model.submit_request(cold := job(1, 2, 3), 0.0)
    finish(model)
    assert cold.first_token == pytest.approx(2 + 0.01 * (13 * 12 / 2))
    model.submit_request(warm := job(1, 2, 3, 4), model.now)
    finish(model)
    assert warm.first_token - warm.arrived == pytest.approx(1 + 0.01 * (5 * 12 + 5 * 4 / 2))


def test_decoding_requests_slow_a_prefill_and_wait_for_its_step():
    model, _ = engine()
    model.submit_request(job(1, output=4), 0.0)
    model.submit_request(late := job(2, 3), 0.0)
    finish(model)
    assert late.first_token == pytest.approx((1 + 0.5) + (1 + 0.9 + 0.01))


def test_a_request_waits_for_room_and_those_behind_it_wait_too():
    model, _ = engine(kv_tokens=10 * BLOCK)
    model.submit_request(first := job(1, 2, 3, 4, 5, output=2), 0.0)
    model.submit_request(large := job(6, 7, 8, 9, output=2), 0.0)
    model.submit_request(small := job(10, output=1), 0.0)
    finish(model)
    assert large.first_token > first.finished
    assert small.first_token >= large.first_token


def test_the_request_that_came_last_gives_way_to_answers_that_grow_and_begins_anew():
    model, _ = engine(kv_tokens=10 * BLOCK)
    model.submit_request(first := job(1, 2, 3, output=20), 0.0)
    model.submit_request(last := job(4, 5, 6, output=9), 0.0)
    list(model.run_until(5.0))
    assert 0 < first.first_token < last.first_token < 5
    told = [(when, done) for when, done in model.run_until(float("inf")) if done is last]
    assert model.preemptions == 1
    assert [done.finished for _, done in told] == [told[0][0]], "its first token is told once"
    assert last.finished > first.finished, "there is room again once the first has ended"
    assert model.prefilled_tokens > first.input_tokens + last.input_tokens, "what it had is prefilled again"
    assert last.cached_tokens == 0
    model.check()


def test_the_least_recently_used_blocks_go_first_and_the_end_of_a_prompt_before_its_beginning():
    model, events = engine(kv_tokens=8 * BLOCK)
    for asked in (job(1, 2, 3), job(4, 5), job(1, 2, 6)):
        model.submit_request(asked, model.now)
        finish(model)
    assert events.held == {1, 2, 3, 4, 5, 6}
    for asked, gone in ((job(7, 8), {3}), (job(9), {5})):
        before = set(events.held)
        model.submit_request(asked, model.now)
        finish(model)
        assert before - events.held == gone


def test_what_an_empty_cache_has_no_room_for_is_refused():
    model, _ = engine(kv_tokens=4 * BLOCK)
    assert model.fits_request(12, 4)
    assert not model.fits_request(12, 5)
    with pytest.raises(ValueError, match="does not fit"):
        model.submit_request(job(1, 2, 3, output=4), 0.0)


@st.composite
def traffic(draw):
    """Prompts that grow out of each other, at times that stand still, creep and jump."""
    prompts, asked, now = [()], [], 0.0
    for number in range(draw(st.integers(1, 25))):
        base = draw(st.sampled_from(prompts))
        fresh = draw(st.integers(0, 6))
        blocks = (
            *base[: draw(st.integers(0, len(base)))],
            *(100 * number + at for at in range(1, fresh + 1)),
        )[:12]
        extra = draw(st.integers(0 if blocks else 1, BLOCK - 1))
        now += draw(st.sampled_from([0.0, 0.001, 0.7, 3.0, 40.0]))
        prompts.append(blocks)
        asked.append((now, blocks, len(blocks) * BLOCK + extra, draw(st.integers(1, 9))))
    return asked


@given(traffic(), st.sampled_from([16, 20, 60]), st.integers(1, 4))
def test_laws_of_the_engine(asked, capacity, max_running):
    constants = EngineConstants(step_s=0.5, prefill_s=0.05, step_tokens=8, max_running=max_running)
    model, events = engine(capacity * BLOCK, constants)
    jobs, order, finished = [], [], []

    def work(until):
        for when, done in model.run_until(until):
            assert when <= until
            (finished if done.finished else order).append(done)
        model.check()
        assert events.held == set(model.cache), "events replayed are the cache's content"

    for now, blocks, tokens, output in asked:
        work(now)
        jobs.append(SimulatedRequest(blocks, tokens, output, now))
        model.submit_request(jobs[-1], now)
        model.check()
    work(float("inf"))
    assert order == jobs, "first tokens come in the order of the requests"
    assert sorted(map(id, finished)) == sorted(map(id, jobs)), "every request is finished once"
    once = sum(job.input_tokens - job.cached_tokens for job in jobs)
    assert model.prefilled_tokens >= once
    assert model.preemptions or model.prefilled_tokens == once, "what was preempted is prefilled again"
    for done in jobs:
        assert done.arrived < done.first_token <= done.finished
        assert 0 <= done.cached_tokens < done.input_tokens
    assert model.work_s <= model.busy_s


@given(traffic(), st.lists(st.floats(0, 200), max_size=10))
def test_looking_at_the_engine_in_between_changes_nothing(asked, looks):
    def times(looks):
        model, _ = engine(20 * BLOCK, EngineConstants(step_s=0.5, prefill_s=0.05, step_tokens=8))
        jobs, happened = [], []
        looks = sorted(looks)
        for now, blocks, tokens, output in asked:
            while looks and looks[0] < now:
                happened += model.run_until(looks.pop(0))
            happened += model.run_until(now)
            jobs.append(SimulatedRequest(blocks, tokens, output, now))
            model.submit_request(jobs[-1], now)
        happened += model.run_until(float("inf"))
        return [(job.first_token, job.finished) for job in jobs]

    assert times(looks) == times([])


def test_constants_are_read_from_text_and_refused_in_words():
    assert EngineConstants.parse_constants("step_s=0.5, step_tokens=64") == EngineConstants(
        step_s=0.5, step_tokens=64
    )
    for text, why in (
        ("speed=3", "step_s, prefill_s"),
        ("step_s=fast", "step_s must be a number"),
        ("step_s=-1", "step_s must be at least 0"),
        ("step_tokens=0", "step_tokens must be at least 1"),
        ("step_s=nan", "step_s must be"),
        ("step_s=1,step_s=2", "each once"),
        ("step_s=0,prefill_s=0,decode_s=0", "no time"),
    ):
        with pytest.raises(ValueError, match=why):
            EngineConstants.parse_constants(text)
