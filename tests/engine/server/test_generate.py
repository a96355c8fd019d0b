"""SGLang's /generate: what reinforcement-learning clients send and read."""

import json
from typing import Any

import pytest

from radixway.core.config.engine import EngineConfig
from support.scripted_engine import ANSWER
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


def events(text: str) -> list[Any]:
    """The JSON of every event but the last, which must be [DONE]."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_a_text_gives_text_ids_and_meta_info(served: Served) -> None:
    response = await served.post("/generate", {"text": "hello", "rid": "r-1"})
    reply = response.json()
    meta = reply["meta_info"]
    assert reply["text"] == ANSWER
    assert reply["output_ids"] == [*served.engine.script, served.engine.eos]
    assert meta["id"] == "r-1" and meta["weight_version"] == "v7"
    assert meta["finish_reason"] == {"type": "stop", "matched": served.engine.eos}
    assert meta["prompt_tokens"] == len(served.engine.submitted[0][0])
    assert meta["cached_tokens"] == meta["prompt_tokens"] // 2
    assert meta["completion_tokens"] == len(reply["output_ids"])
    assert meta["e2e_latency"] > 0
    assert "output_token_logprobs" not in meta
    assert served.engine.submitted[0][1].max_tokens == 128


async def test_sampling_params_have_sglangs_names_and_neutral_defaults(served: Served) -> None:
    await served.post("/generate", {"input_ids": [5, 6]})
    _, params, *_ = served.engine.submitted[0]
    assert (params.temperature, params.top_p, params.top_k) == (1.0, 1.0, -1)
    sampling = {
        "max_new_tokens": 9,
        "min_new_tokens": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "min_p": 0.2,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "repetition_penalty": 1.2,
        "stop": "zz",
        "stop_token_ids": [8],
        "ignore_eos": True,
        "skip_special_tokens": False,
        "no_stop_trim": True,
        "sampling_seed": 4,
        "spaces_between_special_tokens": True,
        "json_schema": None,
    }
    await served.post("/generate", {"input_ids": [5, 6], "sampling_params": sampling, "priority": 2})
    prompt, params, _, priority = served.engine.submitted[1]
    assert prompt == [5, 6] and priority == 2
    assert (params.max_tokens, params.min_tokens, params.seed, params.stop) == (9, 3, 4, ("zz",))
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.9, 4, 0.2)
    assert (params.frequency_penalty, params.presence_penalty, params.repetition_penalty) == (0.1, 0.2, 1.2)
    assert params.stop_token_ids == {8} and params.ignore_eos and params.include_stop
    assert not params.skip_special_tokens and params.logprobs is None


async def test_a_batch_gives_a_list_with_an_id_each(served: Served) -> None:
    body = {
        "text": ["one", "two"],
        "rid": ["a", "b"],
        "sampling_params": [{"max_new_tokens": 1}, {"max_new_tokens": 2}],
        "return_logprob": [True, False],
    }
    replies = (await served.post("/generate", body)).json()
    assert [reply["meta_info"]["id"] for reply in replies] == ["a", "b"]
    assert [len(reply["output_ids"]) for reply in replies] == [1, 2]
    assert ["output_token_logprobs" in reply["meta_info"] for reply in replies] == [True, False]
    assert replies[0]["meta_info"]["finish_reason"] == {"type": "length", "length": 1}
    single = (await served.post("/generate", {"input_ids": [[5, 6]], "rid": "x"})).json()
    assert isinstance(single, list) and single[0]["meta_info"]["id"] == "x"


async def test_n_samples_give_a_list(served: Served) -> None:
    body = {"text": "one", "sampling_params": {"n": 3, "sampling_seed": 1, "max_new_tokens": 1}}
    replies = (await served.post("/generate", body)).json()
    assert len(replies) == 3 and [p.seed for _, p, *_ in served.engine.submitted] == [1, 2, 3]


async def test_the_seeds_of_n_samples_go_on_at_0_after_the_largest(served: Served) -> None:
    await served.post("/generate", {"text": "one", "sampling_params": {"n": 2, "sampling_seed": 2**64 - 1}})
    assert [p.seed for _, p, *_ in served.engine.submitted] == [2**64 - 1, 0]


async def test_logprobs_are_triples_of_logprob_id_and_text(served: Served) -> None:
    body: dict[str, Any] = {"text": "hello", "return_logprob": True, "top_logprobs_num": 2}
    meta = (await served.post("/generate", body)).json()["meta_info"]
    ids = [*served.engine.script, served.engine.eos]
    assert [entry[1:] for entry in meta["output_token_logprobs"]] == [[i, None] for i in ids]
    assert [entry[0] for entry in meta["output_token_logprobs"][:2]] == [-0.25, -9999.0]
    assert meta["output_top_logprobs"][0] == [[-0.5, 0, None], [-1.0, 1, None]]
    assert meta["input_token_logprobs"] == []
    body["return_text_in_logprobs"] = True
    meta = (await served.post("/generate", body)).json()["meta_info"]
    assert meta["output_token_logprobs"][0][2] == served.engine.tokenizer.piece(ids[0])


async def test_a_stream_repeats_the_whole_answer_so_far(served: Served) -> None:
    body = {"text": "hello", "stream": True, "return_logprob": True}
    response = await served.post("/generate", body)
    assert response.headers["content-type"].startswith("text/event-stream")
    parts = events(response.text)
    texts = [part["text"] for part in parts]
    assert texts[-1] == ANSWER and all(ANSWER.startswith(text) for text in texts)
    assert texts == sorted(texts, key=len)
    assert parts[-1]["output_ids"] == [*served.engine.script, served.engine.eos]
    assert all(part["meta_info"]["finish_reason"] is None for part in parts[:-1])
    for part in parts:
        assert len(part["meta_info"]["output_token_logprobs"]) == part["meta_info"]["completion_tokens"]


async def test_a_streamed_batch_says_which_prompt_each_event_is_for(served: Served) -> None:
    response = await served.post("/generate", {"text": ["a", "b"], "stream": True})
    last = {part["index"]: part["text"] for part in events(response.text)}
    assert last == {0: ANSWER, 1: ANSWER}


async def test_a_request_can_be_aborted_by_its_id(served: Served) -> None:
    served.engine.hold_after = 2
    async with served.http.stream(
        "POST", "/generate", json={"text": "hello", "rid": "r-9", "stream": True}
    ) as response:
        await served.engine.holding.wait()
        reply = await served.post("/abort_request", {"rid": "r-9"})
        assert reply.json()["aborted"] == 1
        text = (await response.aread()).decode()
    assert events(text)[-1]["meta_info"]["finish_reason"]["type"] == "abort"
    assert not served.engine.running
    assert (await served.post("/abort_request", {"rid": "r-9"})).json()["aborted"] == 0


async def test_a_batch_can_be_aborted_as_one(served: Served) -> None:
    """By the `rid` that its prompts' ids were made from, or by the request's own id."""
    body = {"text": ["hello", "there"], "sampling_params": {"n": 2}, "rid": "r-10", "stream": True}
    for name in ("r-10", "http-1"):
        served.engine.reset()
        served.engine.hold_after = 2
        headers = {"x-request-id": "http-1"}
        async with served.http.stream("POST", "/generate", json=body, headers=headers) as response:
            await served.engine.holding.wait()
            assert (await served.post("/abort_request", {"rid": "r-1"})).json()["aborted"] == 0
            assert (await served.post("/abort_request", {"rid": name})).json()["aborted"] == 4
            await response.aread()
    assert (await served.post("/abort_request", {"abort_all": True})).json()["aborted"] == 0


async def test_more_answers_than_can_ever_wait_are_not_told_to_come_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.app.service, "config", EngineConfig(max_running=1, max_queued=2))
    for path, body, param in (
        ("/generate", {"text": ["a", "b"], "sampling_params": {"n": 2}}, "text"),
        ("/v1/completions", {"prompt": "a", "n": 4}, "prompt"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "n": 4}, "messages"),
    ):
        refused = await served.post(path, body)
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == param and "3" in refused.json()["error"]["message"]
    assert not served.engine.submitted


async def test_cache_salts_keep_prefixes_apart(served: Served) -> None:
    salts = [{}, {"cache_salt": "a"}, {"extra_key": "a"}, {"extra_key": "a", "cache_salt": "b"}]
    for salt in salts:
        await served.post("/generate", {"text": "hello", **salt})
    assert len({namespace for _, _, namespace, _ in served.engine.submitted}) == len(salts)
    for salt in ({"extra_key": "a\0b"}, {"cache_salt": "a\0"}):  # must not be taken for a key and a salt
        refused = await served.post("/generate", {"text": "hello", **salt})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == next(iter(salt))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "a", "input_ids": [1]}, "text"),
        ({"text": []}, "text"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [[]]}, "input_ids"),
        ({"input_ids": [[1], []]}, "input_ids[1]"),
        ({"input_ids": [1, [2]]}, "input_ids"),
        ({"input_ids": [1.5]}, "input_ids[0]"),
        ({"input_ids": [10**9]}, "input_ids"),
        ({"text": "hi " * 2000}, "text"),
        (
            {"input_ids": [5] * 60, "sampling_params": {"max_new_tokens": 20}},
            "sampling_params.max_new_tokens",
        ),
        ({"text": "a", "sampling_params": {"max_new_tokens": -1}}, "sampling_params.max_new_tokens"),
        ({"text": "a", "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"text": "a", "sampling_params": {"n": 1000}}, "sampling_params.n"),
        ({"text": "a", "sampling_params": {"stop": [""]}}, "sampling_params.stop"),
        ({"text": "a", "sampling_params": {"regex": "a["}}, "sampling_params.regex"),
        ({"text": "a", "sampling_params": {"logit_bias": {"x": 1}}}, "sampling_params.logit_bias"),
        ({"text": "a", "sampling_params": {"stop_token_ids": [-1]}}, "sampling_params.stop_token_ids"),
        ({"text": "a", "sampling_params": [{}, {}]}, "sampling_params"),
        ({"text": ["a", "b"], "rid": ["only one"]}, "rid"),
        ({"text": "a", "return_logprob": True, "logprob_start_len": -2}, "logprob_start_len"),
        ({"text": "a", "return_logprob": True, "logprob_start_len": 50}, "logprob_start_len"),
        ({"text": "a", "return_logprob": True, "logprob_start_len": [0, 0]}, "logprob_start_len"),
        ({"text": "a", "return_logprob": True, "token_ids_logprob": [10**9]}, "token_ids_logprob"),
        ({"text": "a", "return_logprob": True, "token_ids_logprob": [5] * 101}, "token_ids_logprob"),
        ({"text": "a", "return_logprob": True, "token_ids_logprob": [5, [6]]}, "token_ids_logprob"),
        ({"text": ["a", "b"], "return_logprob": True, "token_ids_logprob": [[6]]}, "token_ids_logprob"),
        ({"text": "a", "return_logprob": True, "token_ids_logprob": ["x"]}, "token_ids_logprob[0]"),
        ({"text": "a", "return_logprob": True, "top_logprobs_num": 1000}, "top_logprobs_num"),
        ({"text": "a", "image_data": "x"}, "image_data"),
        ({"text": "a", "priority": 10**30}, "priority"),
        ({"text": 5}, "text"),
    ],
)
async def test_what_cannot_be_served_names_its_field(
    cramped_guide: Served, body: dict[str, Any], param: str
) -> None:
    response = await cramped_guide.post("/generate", body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param, response.text
