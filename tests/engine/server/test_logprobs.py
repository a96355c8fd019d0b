"""Log-probabilities of prompts and answers over HTTP, from the real model, in all three protocols' forms."""

import json
from typing import Any

import pytest

from engine.server.test_generate import events
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "Die Katze sitzt auf dem Dach und sieht den Mond an. The cat sits on the roof."
GREEDY = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}


async def generate(guide: Served, **body: Any) -> Any:
    response = await guide.post("/generate", {"sampling_params": GREEDY, "return_logprob": True, **body})
    assert response.status_code == 200, response.text
    return response.json()


async def ids_of(guide: Served, text: str = TEXT) -> list[int]:
    tokens: list[int] = (await guide.post("/tokenize", {"prompt": text})).json()["tokens"]
    return tokens


async def test_a_prompt_is_scored_from_where_it_is_asked_for(guide: Served) -> None:
    ids = await ids_of(guide)
    everything = (await generate(guide, input_ids=ids, logprob_start_len=0))["meta_info"]
    whole = everything["input_token_logprobs"]
    assert whole[0] == [None, ids[0], None]
    assert [entry[1] for entry in whole] == ids and all(entry[0] < 0 for entry in whole[1:])
    for start in (1, 5, len(ids) - 1):  # by now it is cached
        meta = (await generate(guide, input_ids=ids, logprob_start_len=start))["meta_info"]
        part = meta["input_token_logprobs"]
        assert part[0] == [None, ids[start], None] and meta["cached_tokens"] <= start
        assert [entry[1] for entry in part] == ids[start:]
        assert [entry[0] for entry in part[1:]] == pytest.approx(
            [entry[0] for entry in whole[start + 1 :]], abs=1e-4
        )
    meta = (await generate(guide, input_ids=ids, logprob_start_len=-1))["meta_info"]
    assert meta["input_token_logprobs"] == [] and meta["cached_tokens"] > 0


async def test_what_was_sampled_is_worth_the_same_when_it_is_scored_as_a_prompt(guide: Served) -> None:
    """What a trainer does with a rollout."""
    ids = await ids_of(guide)
    fields = {"top_logprobs_num": 2, "token_ids_logprob": [7, 300]}
    sampled = await generate(guide, input_ids=ids, **fields)
    again = await generate(
        guide,
        input_ids=ids + sampled["output_ids"],
        logprob_start_len=len(ids) - 1,
        sampling_params={"max_new_tokens": 0},
        **fields,
    )
    assert again["text"] == "" and again["output_ids"] == []
    for kind in ("token_logprobs", "top_logprobs", "token_ids_logprobs"):
        first, *scored = again["meta_info"][f"input_{kind}"]
        assert first == ([None, ids[-1], None] if kind == "token_logprobs" else None)
        for one, other in zip(scored, sampled["meta_info"][f"output_{kind}"], strict=True):
            ones, others = ([one], [other]) if kind == "token_logprobs" else (one, other)
            assert [entry[1] for entry in ones] == [entry[1] for entry in others]
            assert [entry[0] for entry in ones] == pytest.approx([entry[0] for entry in others], abs=1e-4)


async def test_a_stream_ends_with_the_lists_of_the_whole_answer(guide: Served) -> None:
    body = {
        "text": [TEXT, "hello"],
        "return_logprob": True,
        "logprob_start_len": [1, -1],
        "top_logprobs_num": [2, 0],
        "token_ids_logprob": [[7], []],
        "sampling_params": {"temperature": 0, "max_new_tokens": 5},
    }

    def without_figures(text: str) -> Any:
        return json.loads(text, parse_float=lambda _: 0.0)

    whole = without_figures((await guide.post("/generate", body)).text)
    reply = (await guide.post("/generate", {**body, "stream": True})).text
    events = [without_figures(line[6:]) for line in reply.splitlines() if line.startswith("data: {")]
    for index, answer in enumerate(whole):
        of_this = [event["meta_info"] for event in events if event["index"] == index]
        lists = {name: value for name, value in answer["meta_info"].items() if name.endswith("logprobs")}
        assert lists == {name: value for name, value in of_this[-1].items() if name.endswith("logprobs")}
        for meta in of_this:
            assert len(meta["output_token_logprobs"]) == meta["completion_tokens"]


async def test_each_prompt_of_a_batch_has_its_own_wishes(guide: Served) -> None:
    one, two, three = await generate(
        guide,
        text=[TEXT, TEXT, "hello"],
        return_logprob=[True, True, False],
        logprob_start_len=[2, -1, 0],
        top_logprobs_num=[0, 2, 0],
        token_ids_logprob=[[5], None, [6]],
        return_text_in_logprobs=True,
    )
    ids = await ids_of(guide)
    tokenizer = guide.app.service.tokenizer
    entries = one["meta_info"]["input_token_logprobs"]
    assert [entry[2] for entry in entries] == [tokenizer.piece(token) for token in ids[2:]]
    assert "output_top_logprobs" not in one["meta_info"]
    assert [len(entry) for entry in one["meta_info"]["output_token_ids_logprobs"]] == [1] * 6
    assert two["meta_info"]["input_token_logprobs"] == two["meta_info"]["input_top_logprobs"] == []
    assert [len(entry) for entry in two["meta_info"]["output_top_logprobs"]] == [2] * 6
    assert "output_token_ids_logprobs" not in two["meta_info"]
    assert "input_token_logprobs" not in three["meta_info"]


async def test_a_stream_repeats_the_prompts_scores(guide: Served) -> None:
    body = {"text": TEXT, "sampling_params": GREEDY, "return_logprob": True, "logprob_start_len": 3}
    whole = (await guide.post("/generate", body)).json()
    parts = events((await guide.post("/generate", {**body, "stream": True})).text)
    for part in parts:
        scores = part["meta_info"]["input_token_logprobs"]
        expected = whole["meta_info"]["input_token_logprobs"]
        assert [entry[1] for entry in scores] == [entry[1] for entry in expected]
        assert [e[0] for e in scores[1:]] == pytest.approx([e[0] for e in expected[1:]], abs=1e-4)


async def test_every_answer_says_which_weights_made_it(guide: Served) -> None:
    meta = (await generate(guide, text=TEXT))["meta_info"]
    assert meta["weight_version"] == "default"
    assert meta["weight_versions"] == [{"version": "default", "start": 0, "end": 6}]
    chat = (await guide.chat(max_tokens=2)).json()
    assert chat["metadata"] == {"weight_version": "default"}


async def test_chat_prompts_are_scored_in_vllms_form(guide: Served) -> None:
    body = {"max_tokens": 2, "temperature": 0, "prompt_logprobs": 2, "n": 2, "return_token_ids": True}
    reply = (await guide.chat(**body)).json()
    ids = reply["prompt_token_ids"]
    first, *rest = reply["prompt_logprobs"]
    assert first is None and len(rest) == len(ids) - 1
    for token, entries in zip(ids[1:], rest, strict=True):
        assert set(entries[str(token)]) == {"logprob", "rank", "decoded_token"}
        assert 2 <= len(entries) <= 3
        ranks = {entry["rank"]: entry["logprob"] for entry in entries.values()}
        assert {1, 2} <= ranks.keys() and ranks[1] >= ranks[2]
    assert (await guide.chat(max_tokens=2)).json()["prompt_logprobs"] is None


async def test_completions_carry_their_prompts_scores_choice_by_choice(guide: Served) -> None:
    body = {"prompt": [TEXT, "hello there"], "max_tokens": 2, "n": 2, "prompt_logprobs": 0, "seed": 1}
    choices = (await guide.post("/v1/completions", body)).json()["choices"]
    lengths = [len(await ids_of(guide, text)) for text in body["prompt"]]  # type: ignore[attr-defined]
    assert [len(choice["prompt_logprobs"]) for choice in choices] == [n for n in lengths for _ in range(2)]
    assert choices[0]["prompt_logprobs"] == choices[1]["prompt_logprobs"]
    assert choices[0]["logprobs"] is None


@pytest.mark.parametrize("n", [1, 2])
async def test_an_echo_with_logprobs_scores_the_prompt_like_the_answer(guide: Served, n: int) -> None:
    body = {"prompt": TEXT, "echo": True, "logprobs": 2, "max_tokens": 4, "temperature": 0, "n": n}
    body |= {"ignore_eos": True, "skip_special_tokens": False}
    choices = (await guide.post("/v1/completions", body)).json()["choices"]
    ids = await ids_of(guide)
    scores = (await generate(guide, input_ids=ids, logprob_start_len=0))["meta_info"]["input_token_logprobs"]
    for choice in choices:
        logprobs = choice["logprobs"]
        assert choice["text"].startswith(TEXT) and choice["prompt_logprobs"] is None
        assert "".join(logprobs["tokens"]) == choice["text"]
        assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
        assert len(logprobs["tokens"]) == len(ids) + 4 == len(logprobs["top_logprobs"])
        assert logprobs["token_logprobs"][1 : len(ids)] == pytest.approx(
            [entry[0] for entry in scores[1:]], abs=1e-4
        )
        for token, at in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
            assert choice["text"].startswith(token, at)


async def test_a_streamed_echo_comes_with_its_logprobs(guide: Served) -> None:
    body = {"prompt": TEXT, "echo": True, "logprobs": 0, "max_tokens": 4, "temperature": 0, "n": 2}
    body |= {"ignore_eos": True, "skip_special_tokens": False}
    whole = (await guide.post("/v1/completions", body)).json()["choices"]
    parts = events((await guide.post("/v1/completions", {**body, "stream": True})).text)
    for index in range(2):
        mine = [part["choices"][0] for part in parts if part["choices"][0]["index"] == index]
        tokens = [token for choice in mine for token in choice["logprobs"]["tokens"]]
        offsets = [at for choice in mine for at in choice["logprobs"]["text_offset"]]
        assert tokens == whole[index]["logprobs"]["tokens"]
        assert offsets == whole[index]["logprobs"]["text_offset"]


async def test_a_prompt_is_scored_without_being_continued(guide: Served) -> None:
    body = {"prompt": TEXT, "echo": True, "logprobs": 0, "max_tokens": 0}
    choice = (await guide.post("/v1/completions", body)).json()["choices"][0]
    assert choice["text"] == TEXT and choice["finish_reason"] == "length"
    assert len(choice["logprobs"]["tokens"]) == len(await ids_of(guide))
