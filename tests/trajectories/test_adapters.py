"""Our samples in the layouts of slime and verl."""

from __future__ import annotations

from array import array
from base64 import b64encode

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories.adapters import to_slime, to_verl

PROMPT, ANSWER, RESULT, LAST = [11, 12, 13], [21, 22], [31, 32], [41]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What time is it?"},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "content": "noon"},
    {"role": "assistant", "content": "Noon."},
]


def span(start: int, end: int, source: str, version=None):
    return {
        "start": start,
        "end": end,
        "source": source,
        "loss_mask": int(source == "sampled"),
        "version": version,
    }


def session_sample(**fields):
    """A question, a tool call that version 7 made, its result, and an answer by version 8."""
    return {
        "session_id": "s",
        "tokens": PROMPT + ANSWER + RESULT + LAST,
        "loss_mask": [0, 0, 0, 1, 1, 0, 0, 1],
        "logprobs": [0.0, 0.0, 0.0, -0.1, -0.2, 0.0, 0.0, -0.3],
        "versions": [None, None, None, "7", "7", None, None, "8"],
        "spans": [
            span(0, 3, "prompt"),
            span(3, 5, "sampled", "7"),
            span(5, 7, "prompt"),
            span(7, 8, "sampled", "8"),
        ],
        "routed_experts": [],
        "messages": MESSAGES,
        "finish_reason": "stop",
        "reward": 0.5,
        "exact": True,
        "metadata": {"task": 3},
        **fields,
    }


def retrieved_sample(**fields):
    """The same as `/retrieve_from_text` tells it."""
    sample = session_sample()
    for name in ("session_id", "messages", "finish_reason", "reward", "metadata", "routed_experts"):
        del sample[name]
    return {**sample, "rollout_logp": sample.pop("logprobs"), "response": "…", "coverage": 1.0, **fields}


def rows(*numbers: int) -> str:
    """Rows of routed experts, two layers of one expert each, in base64."""
    return b64encode(
        array("i", [value for number in numbers for value in (number, -number)]).tobytes()
    ).decode()


def test_slimes_response_begins_with_the_first_answer_and_masks_what_the_tool_said():
    made = to_slime(session_sample(), index=4, group_index=1, rollout_id=9)
    assert made == {
        "index": 4,
        "group_index": 1,
        "rollout_id": 9,
        "prompt": MESSAGES[:2],
        "tokens": [11, 12, 13, 21, 22, 31, 32, 41],
        "response": "Noon.",
        "response_length": 5,
        "label": None,
        "reward": 0.5,
        "loss_mask": [1, 1, 0, 0, 1],
        "weight_versions": ["7", "8"],
        "rollout_log_probs": [-0.1, -0.2, 0.0, 0.0, -0.3],
        "rollout_routed_experts": None,
        "status": "completed",
        "metadata": {"task": 3},
        "session_id": "s",
    }


def test_a_text_that_was_retrieved_gives_slime_the_same_tokens_and_the_caller_gives_the_rest():
    reason = {"type": "length", "length": 1}
    made = to_slime(retrieved_sample(), prompt="What?", response="Noon.", reward=1.0, finish_reason=reason)
    expected = to_slime(session_sample())
    for name in ("tokens", "response_length", "loss_mask", "weight_versions", "rollout_log_probs"):
        assert made[name] == expected[name]
    assert (made["prompt"], made["response"], made["reward"]) == ("What?", "Noon.", 1.0)
    assert made["status"] == "truncated"
    assert to_slime(retrieved_sample(), finish_reason="abort")["status"] == "aborted"


def test_an_answer_that_another_branch_trains_on_stays_in_the_response_with_mask_0():
    shared = session_sample(loss_mask=[0, 0, 0, 0, 0, 0, 0, 1])
    made = to_slime(shared)
    assert (made["response_length"], made["loss_mask"]) == (5, [0, 0, 0, 0, 1])
    assert made["weight_versions"] == ["8"]


def test_verl_pads_prompts_on_the_left_and_responses_on_the_right():
    short = session_sample(
        tokens=[11, 21],
        loss_mask=[0, 1],
        logprobs=[0.0, -0.5],
        versions=[None, "9"],
        spans=[span(0, 1, "prompt"), span(1, 2, "sampled", "9")],
        reward=2.0,
    )
    batch = to_verl([session_sample(), short], pad_token_id=99, uids=["a", "b"])
    assert batch.tensors == {
        "prompts": [[11, 12, 13], [99, 99, 11]],
        "responses": [[21, 22, 31, 32, 41], [21, 99, 99, 99, 99]],
        "response_mask": [[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]],
        "input_ids": [[11, 12, 13, 21, 22, 31, 32, 41], [99, 99, 11, 21, 99, 99, 99, 99]],
        "attention_mask": [[1] * 8, [0, 0, 1, 1, 0, 0, 0, 0]],
        "position_ids": [[0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 1, 1, 1, 1, 1]],
        "rollout_log_probs": [[-0.1, -0.2, 0.0, 0.0, -0.3], [-0.5, 0.0, 0.0, 0.0, 0.0]],
        "rm_scores": [[0.0, 0.0, 0.0, 0.0, 0.5], [2.0, 0.0, 0.0, 0.0, 0.0]],
    }
    assert batch.non_tensors == {
        "__num_turns__": [4, 2],
        "min_global_steps": [7, 9],
        "max_global_steps": [8, 9],
        "uid": ["a", "b"],
    }


def test_verl_has_lengths_of_its_own_and_cuts_responses_but_no_prompts():
    batch = to_verl([session_sample()], prompt_length=5, response_length=4)
    assert batch.tensors["input_ids"] == [[0, 0, 11, 12, 13, 21, 22, 31, 32]]
    assert batch.tensors["rm_scores"] == [[0.0, 0.0, 0.0, 0.5]]
    with pytest.raises(ValueError, match="a prompt has 3 tokens, more than prompt_length 2"):
        to_verl([session_sample()], prompt_length=2)


@given(st.lists(st.tuples(st.integers(1, 9), st.lists(st.booleans(), min_size=1, max_size=9)), min_size=1))
def test_nothing_is_lost_or_invented_between_a_sample_and_verls_batch(shapes):
    samples = []
    for prompt, answered in shapes:
        sampled = [False] * prompt + [True, *answered]
        samples.append(
            session_sample(
                tokens=[100 + at for at in range(len(sampled))],
                loss_mask=[int(one) for one in sampled],
                logprobs=[-float(at) if one else 0.0 for at, one in enumerate(sampled)],
                versions=["1" if one else None for one in sampled],
                spans=[span(at, at + 1, "sampled" if one else "prompt") for at, one in enumerate(sampled)],
            )
        )
    made = to_verl(samples).arrays(torch)
    width = made["prompts"].shape[1]
    assert made["position_ids"].equal((made["attention_mask"].cumsum(-1) - 1).clip(min=0)), "as verl counts"
    for row, sample in enumerate(samples):
        there = made["attention_mask"][row].bool()
        assert made["input_ids"][row][there].tolist() == sample["tokens"]
        trained = made["response_mask"][row].bool()
        assert not (trained & ~there[width:]).any(), "padding is not trained on"
        expected = [at for at, one in enumerate(sample["loss_mask"]) if one]
        assert made["responses"][row][trained].tolist() == [100 + at for at in expected]
        assert made["rollout_log_probs"][row][trained].tolist() == [-float(at) for at in expected]


def test_arrays_are_of_the_library_that_is_passed_in():
    batch = to_verl([session_sample()])
    for library in (torch, numpy):
        made = batch.arrays(library)
        assert {name: made[name].dtype for name in ("input_ids", "rollout_log_probs", "rm_scores")} == {
            "input_ids": library.int64,
            "rollout_log_probs": library.float32,
            "rm_scores": library.float32,
        }


@pytest.mark.parametrize(
    "experts",
    [
        [
            {"call": "a", "start": 0, "end": 4, "data": rows(1, 2, 3, 4)},
            {"call": "b", "start": 4, "end": 7, "data": rows(5, 6, 7)},
        ],
        [{"end": 5, "data": rows(1, 2, 3, 4)}, {"end": 8, "data": rows(91, 92, 93, 94, 5, 6, 7)}],
        [{"end": 5, "data": rows(1, 2, 3, 4)}, {"end": 8, "data": rows(5, 6, 7)}],
        [{"call": "a", "start": 0, "end": 7, "data": rows(1, 2, 3, 4, 5, 6, 7, 98)}],
    ],
    ids=["by session", "all rows again", "new rows only", "the last token's too"],
)
def test_rows_of_routed_experts_are_those_that_sampling_used(experts):
    sample = session_sample(routed_experts=experts)
    made = numpy.asarray(to_slime(sample, experts_shape=(2, 1))["rollout_routed_experts"])
    assert made.dtype == numpy.int32
    assert made.tolist() == [[[number], [-number]] for number in range(1, 8)]
    padded = to_verl([sample], prompt_length=5, response_length=6, experts_shape=(2, 1)).arrays(numpy)
    assert padded["routed_experts"].shape == (1, 11, 2, 1) and padded["routed_experts"].dtype == numpy.int16
    assert padded["routed_experts"][0, :, 0, 0].tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"exact": False}, "not exact"),
        ({"loss_mask": [0]}, "8 tokens and 1 loss_mask"),
        ({"versions": []}, "8 tokens and 0 versions"),
        ({"logprobs": [None] * 8}, "lacks log-probabilities"),
        ({"spans": [span(0, 8, "prompt")]}, "nothing of the sample was sampled"),
        ({"tokens": "abc"}, "no list 'tokens'"),
        ({"routed_experts": [{"end": 8, "data": rows(1)}]}, "give experts_shape"),
    ],
)
def test_what_would_train_on_something_made_up_is_refused(fields, why):
    for convert in (to_slime, lambda sample: to_verl([sample])):
        with pytest.raises(ValueError, match=why):
            convert(session_sample(**fields))


@pytest.mark.parametrize(
    ("experts", "why"),
    [
        ([{"start": 0, "end": 4, "data": rows(1, 2)}], "16 bytes .* are not rows of .* for 4 tokens"),
        ([{"start": 2, "end": 7, "data": rows(1, 2, 3, 4, 5)}], "tokens 0 to 2 are missing"),
        ([{"start": 0, "end": 3, "data": rows(1, 2, 3)}], "tokens 3 to 7 are missing"),
    ],
)
def test_routed_experts_that_do_not_fit_are_refused(experts, why):
    with pytest.raises(ValueError, match=why):
        to_slime(session_sample(routed_experts=experts), experts_shape=(2, 1))


def test_a_batch_is_of_one_kind():
    with pytest.raises(ValueError, match="no samples"):
        to_verl([])
    with pytest.raises(ValueError, match="1 samples and 2 rewards"):
        to_verl([session_sample()], rewards=[1, 2])
    without = to_verl([session_sample(reward=None)])
    assert "rm_scores" not in without.tensors
    routed = session_sample(routed_experts=[{"start": 0, "end": 7, "data": rows(*range(7))}])
    with pytest.raises(ValueError, match="others have none"):
        to_verl([routed, session_sample()], experts_shape=(2, 1))


def test_versions_that_are_no_numbers_are_no_steps():
    sample = session_sample(versions=[None, None, None, "a", "a", None, None, "8"])
    assert to_verl([sample]).non_tensors["max_global_steps"] == [None]
    assert to_slime(sample)["weight_versions"] == ["a", "8"]
