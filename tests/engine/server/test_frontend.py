"""The requests that SGLang's frontend language sends, as it sends them, without its package.

`tests/end_to_end/test_sglang_frontend.py` runs the real one.
"""

import json
from itertools import pairwise
from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAMPLING = {  # all of `SglSamplingParams.to_srt_kwargs`, as a program that says nothing leaves it
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "max_new_tokens": 8,
    "min_new_tokens": 0,
    "n": 1,
    "stop": [],
    "stop_token_ids": [],
    "stop_regex": [],
    "temperature": 0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "ignore_eos": False,
    "regex": None,
    "json_schema": None,
}
TEXT = "USER:What is a radix tree?\nASSISTANT:"


async def post(served: Served, path: str, body: dict[str, Any]) -> Any:
    response = await served.post(path, body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_connecting_tells_the_models_path(guide: Served) -> None:
    assert (await guide.http.get("/get_model_info")).json()["model_path"].endswith("guide")


async def test_gen(guide: Served) -> None:
    reply = await post(guide, "/generate", {"text": TEXT, "sampling_params": SAMPLING})
    assert reply["text"] and reply["meta_info"]["completion_tokens"] == 8


async def test_gen_streams_the_whole_text_so_far_and_ends_with_done(guide: Served) -> None:
    body = {"text": TEXT, "sampling_params": SAMPLING}
    whole = await post(guide, "/generate", body)
    response = await guide.post("/generate", {**body, "stream": True})
    *lines, done = [line for line in response.text.split("\n") if line]
    assert done == "data: [DONE]"
    texts = [json.loads(line.removeprefix("data:"))["text"] for line in lines]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert texts[-1] == whole["text"]


async def test_a_fork_first_caches_what_its_branches_share(guide: Served) -> None:
    text = "A page holds the KV of a few tokens. " * 4
    empty = await post(guide, "/generate", {"text": text, "sampling_params": {"max_new_tokens": 0}})
    assert empty["text"] == "" and empty["meta_info"]["completion_tokens"] == 0
    branch = await post(guide, "/generate", {"text": text + " (1)", "sampling_params": SAMPLING})
    assert 0 < empty["meta_info"]["prompt_tokens"] - branch["meta_info"]["cached_tokens"] <= 17


async def test_select_reads_each_choices_logprobs_from_just_before_it(guide: Served) -> None:
    prompt = {"text": TEXT, "sampling_params": {"max_new_tokens": 0}}
    start = (await post(guide, "/generate", prompt))["meta_info"]["prompt_tokens"] - 2
    choices = [" a tree", " nothing at all"]
    scored = {
        "text": [TEXT + choice for choice in choices],
        "sampling_params": {"max_new_tokens": 0, "temperature": 0},
        "return_logprob": True,
        "return_text_in_logprobs": True,
        "logprob_start_len": start,
    }
    for choice, reply in zip(choices, await post(guide, "/generate", scored), strict=True):
        first, *entries = reply["meta_info"]["input_token_logprobs"]
        assert first[0] is None
        assert all(logprob < 0 for logprob, _, _ in entries)
        assert "".join(text for _, _, text in entries).endswith(choice)
        assert reply["meta_info"]["output_token_logprobs"] == []


async def test_joining_branches_needs_nothing_of_the_server(guide: Served) -> None:
    path = "/concate_and_append_request"
    await post(guide, path, {"src_rids": ["a", "b"], "dst_rid": "c"})
    for body, field in (({"src_rids": ["a"]}, "dst_rid"), ({"src_rids": "a", "dst_rid": "c"}, "src_rids")):
        response = await guide.post(path, body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == field
