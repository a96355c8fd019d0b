"""What a reply says of its tokens is believed only where it fits together."""

from __future__ import annotations

import json
from math import isnan
from typing import Any

import pytest

from radixway.core.config import TrajectoriesConfig
from radixway.trajectories import TrieRegistry
from radixway.trajectories.generate_replies import SingleAnswerReader, UnusableReplyError, read_sampled_tokens
from radixway.trajectories.resumption import single_answer_request


def reply(ids: list[int], **meta: Any) -> bytes:
    return json.dumps({"text": "", "output_ids": ids, "meta_info": meta}).encode()


def test_an_infinite_log_probability_is_none() -> None:
    raw = reply([5], output_token_logprobs=[[-0.5, 5, None]]).replace(b"-0.5", b"-1e300")
    with pytest.raises(UnusableReplyError, match="infinite"):
        read_sampled_tokens(raw)


def test_an_infinite_log_probability_is_found_beside_missing_ones() -> None:
    raw = reply([5, 6], output_token_logprobs=[[None, 5, None], [-0.5, 6, None]])
    logprobs = read_sampled_tokens(raw)[0].logprobs
    assert isnan(logprobs[0]) and logprobs[1] == -0.5
    with pytest.raises(UnusableReplyError, match="infinite"):
        read_sampled_tokens(raw.replace(b"-0.5", b"1e300"))


def test_a_reply_that_lacks_tokens_is_unusable() -> None:
    assert read_sampled_tokens(reply([5, 6], completion_tokens=2))[0].ids == [5, 6]
    with pytest.raises(UnusableReplyError, match="counts 3 tokens and names 2"):
        read_sampled_tokens(reply([5, 6], completion_tokens=3))


def test_a_stream_of_new_tokens_that_begins_with_none_is_not_taken_for_its_last_event() -> None:
    words = SingleAnswerReader()
    for ids, count in (([], 0), ([5], 1), ([6], 2)):
        words.read_chunk(b"data: " + reply(ids, completion_tokens=count) + b"\n\n")
    with pytest.raises(UnusableReplyError):
        words.answer()


def test_a_prompt_of_one_token_stays_a_list_in_the_request_for_one_of_its_answers() -> None:
    body = {"input_ids": [5], "sampling_params": {"n": 2}}
    assert single_answer_request(body, 1, 1, 2) == {"input_ids": [5], "sampling_params": {"n": 1}}
    assert single_answer_request({"input_ids": [[5], [6, 7]]}, 1, 2, 1) == {"input_ids": [6, 7]}


async def test_models_that_are_only_names_do_not_push_out_what_was_recorded() -> None:
    async def no_tokenizer(model: str | None) -> tuple[str, None]:
        return model or "", None

    tries = TrieRegistry(TrajectoriesConfig(), no_tokenizer)
    recorded = await tries.trie_for("m")
    recorded.insert("Hello", [5])
    for number in range(200):
        await tries.trie_for(f"model {number}")
    assert await tries.trie_for("m") is recorded
    assert len(tries._tries) <= 64
