"""Whatever JSON a worker answers, reading it raises nothing."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories.partial_answer import (
    answer_versions,
    cut_answer,
    is_aborted,
    join_answers,
    read_partial_answer,
)
from radixway.trajectories.resumed_events import GenerateAttempt, fuller_reply, read_event, reply_delta

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
IDS = st.lists(st.integers(0, 9), max_size=4)
FINISH = st.sampled_from([{"type": "abort"}, {"type": "length", "length": 3}, None])
SPAN = st.fixed_dictionaries({"version": VALUES, "start": st.integers(0, 4), "end": st.integers(0, 4)})
META = st.fixed_dictionaries(
    {},
    optional={
        "finish_reason": FINISH | VALUES,
        "output_token_logprobs": IDS.map(lambda ids: [[-1.0, token] for token in ids]) | VALUES,
        "output_top_logprobs": VALUES,
        "input_token_logprobs": VALUES,
        "weight_versions": st.lists(SPAN, max_size=2) | VALUES,
        "weight_version": VALUES,
        "prompt_tokens": st.integers(0, 5) | VALUES,
        "completion_tokens": st.integers(0, 5) | VALUES,
        "routed_experts": st.just("AAAAAAAA") | VALUES,
        "e2e_latency": VALUES,
    },
)
REPLY = st.fixed_dictionaries(
    {"meta_info": META | VALUES},
    optional={"output_ids": IDS | VALUES, "text": st.text(max_size=4) | VALUES},
)


@given(REPLY | VALUES, REPLY | VALUES, st.integers(0, 4), st.booleans())
def test_replies_of_any_kind_are_read_joined_and_cut(one, two, count, with_logprobs):
    before = deepcopy((one, two))
    assert is_aborted(one) in (True, False)
    answers = [read_partial_answer(reply, with_logprobs=with_logprobs) for reply in (one, two)]
    if None not in answers:
        whole = join_answers(*answers)
        assert whole.ids == answers[0].ids + answers[1].ids
        part = cut_answer(whole, min(count, len(whole.ids)), text="")
        assert all(span["end"] <= len(part.ids) for span in answer_versions(part))
    assert (one, two) == before  # what may yet be passed on stays as it came


@given(
    st.lists(
        st.fixed_dictionaries({"meta_info": META}, optional={"output_ids": IDS | VALUES, "text": VALUES})
    )
)
def test_events_of_any_kind_are_added_up(events):
    attempt, passed = GenerateAttempt(), None
    for event in events:
        before = attempt.reply
        whole = fuller_reply(before, attempt.add_event(event))
        if passed is not None:
            reply_delta(whole, passed)
        passed = whole


@given(
    st.binary(max_size=40)
    | st.text(max_size=20).map(lambda text: b"data: {" + text.encode("utf-8", "ignore"))
)
def test_events_of_any_bytes_are_read(raw):
    assert read_event(raw) is None
