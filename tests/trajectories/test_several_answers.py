"""Several answers, or none, in one reply of `/generate`."""

import json

import pytest

from radixway.trajectories.generate_replies import (
    MultiAnswerReader,
    SingleAnswerReader,
    UnusableReplyError,
    read_sampled_tokens,
)


def reply(ids, text="Hi", **more):
    rows = [[-0.5, token] for token in ids]
    return {"text": text, "output_ids": ids, "meta_info": {"output_token_logprobs": rows}, **more}


def event(ids, text, count, index):
    told = reply(ids, text, index=index)
    told["meta_info"]["completion_tokens"] = count
    return b"data: " + json.dumps(told).encode() + b"\n\n"


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 3, 1)])
def test_answers_that_share_a_stream_are_not_taken_for_one(order):
    of_two = [event([1], "a", 1, 0), event([2], "b", 2, 0), event([3], "c", 1, 1), event([4], "d", 2, 1)]
    words = MultiAnswerReader()
    for place in order:
        words.read_chunk(of_two[place])
    words.read_chunk(b"data: [DONE]\n\n")
    assert sorted((told.ids, told.text) for told in words.answers()) == [([1, 2], "ab"), ([3, 4], "cd")]


def test_repeating_events_of_several_answers_keep_the_last_of_each():
    words = MultiAnswerReader()
    for ids, index in (([1], 0), ([3], 1), ([1, 2], 0), ([3, 4], 1)):
        words.read_chunk(event(ids, "x" * len(ids), len(ids), index))
    assert [told.ids for told in words.answers()] == [[1, 2], [3, 4]]


def test_an_event_of_several_answers_that_names_none_is_unusable():
    with pytest.raises(UnusableReplyError, match="which answer"):
        MultiAnswerReader().read_chunk(b"data: " + json.dumps(reply([1])).encode() + b"\n\n")


def test_events_need_no_space_behind_their_colon():
    words = SingleAnswerReader()
    words.read_chunk(b"data:" + json.dumps(reply([1])).encode() + b"\n\ndata:[DONE]\n\n")
    assert words.answer().ids == [1]


def test_a_text_without_tokens_is_unusable():
    with pytest.raises(UnusableReplyError, match="output_ids"):
        read_sampled_tokens(json.dumps(reply([])).encode())


def test_a_reply_without_answers_is_unusable():
    with pytest.raises(UnusableReplyError, match="no answer"):
        read_sampled_tokens(b"[]")
