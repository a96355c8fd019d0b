"""Each request field that OpenAI, vLLM or SGLang knows is honoured, refused by name, or has no effect."""

import asyncio
import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from radixway.core.config.engine import EngineConfig
from radixway.engine.server import build_app
from radixway.engine.server.chat_completions import ChatCompletionBody
from radixway.engine.server.completions import TextCompletionBody
from radixway.engine.server.generate import GenerateRequestBody, GenerateSampling
from radixway.engine.server.openai_fields import StructuredOutputsParams
from radixway.engine.server.unsupported_fields import (
    UnsupportedGenerateFields,
    UnsupportedOpenAIFields,
    UnsupportedSamplingFields,
)
from support.scripted_engine import ScriptedEngine
from support.server_served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    COMPLETIONS: {"prompt": "hi"},
    GENERATE: {"text": "hi"},
}
OPENAI_FIELDS = sorted(UnsupportedOpenAIFields.__annotations__)
REFUSED_IN_CHAT = ["chat_template", "function_call", "functions"]
REFUSED = {
    CHAT: sorted(OPENAI_FIELDS + REFUSED_IN_CHAT),
    COMPLETIONS: sorted([*OPENAI_FIELDS, "suffix"]),
    GENERATE: sorted(UnsupportedGenerateFields.__annotations__),
    "sampling_params": sorted(UnsupportedSamplingFields.__annotations__),
    "structured_outputs": ["disable_additional_properties"],
}
STRUCTS: dict[str, type[msgspec.Struct]] = {
    CHAT: ChatCompletionBody,
    COMPLETIONS: TextCompletionBody,
    GENERATE: GenerateRequestBody,
    "sampling_params": GenerateSampling,
    "structured_outputs": StructuredOutputsParams,
}
ENGINES = json.loads(Path(__file__).with_name("engine_request_fields.json").read_text("utf-8"))
"""The fields that the engines' own classes and the `openai` package declare."""
KNOWN = {
    CHAT: {*ENGINES["openai_chat"], *ENGINES["vllm_chat"], *ENGINES["sglang_chat"]},
    COMPLETIONS: {
        *ENGINES["openai_completions"],
        *ENGINES["vllm_completions"],
        *ENGINES["sglang_completions"],
    },
    GENERATE: set(ENGINES["sglang_generate"]),
    "sampling_params": set(ENGINES["sglang_sampling"]),
    "structured_outputs": set(ENGINES["vllm_structured_outputs"]),
}


def documented_fields() -> dict[str, list[set[str]]]:
    """The honoured, refused and ineffective fields of each surface, by docs/reference/engine-requests.md."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "engine-requests.md"
    text = page.read_text(encoding="utf-8")
    section = text.partition("\n## Request fields\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [set(re.findall(r"`([^`]+)`", cell)) for cell in row[1:]] for row in rows}


@pytest.mark.parametrize("surface", STRUCTS)
async def test_the_page_says_of_every_known_field_what_becomes_of_it(surface: str) -> None:
    declared = {field.encode_name for field in msgspec.structs.fields(STRUCTS[surface])}
    honoured, refused, ineffective = documented_fields()[surface]
    assert refused == set(REFUSED[surface])
    assert honoured == declared - refused
    assert ineffective == KNOWN[surface] - declared


ASKING = {"modalities": ["audio"], "beam_width": 2, "thinking_token_budget": 5, "chat_template": "{{ 1 }}"}
LIMITS = {"max_thinking_tokens", "thinking_token_budget"}
CASES = [(path, name) for path in BODIES for name in REFUSED[path]]


@pytest.mark.parametrize(("path", "name"), CASES)
async def test_what_cannot_be_done_is_refused_by_name(served: Served, path: str, name: str) -> None:
    response = await served.post(path, {**BODIES[path], name: ASKING.get(name, "x")})
    assert response.status_code == 400, response.text
    assert (response.json()["error"]["param"], response.json()["error"]["code"]) == (name, "unsupported")
    assert not served.engine.submitted


@pytest.mark.parametrize("name", REFUSED["sampling_params"])
async def test_sampling_that_cannot_be_done_is_refused_by_name(served: Served, name: str) -> None:
    response = await served.post(GENERATE, {"text": "hi", "sampling_params": {name: ASKING.get(name, "x")}})
    assert response.json()["error"]["param"] == f"sampling_params.{name}"


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("nothing", [None, False, 0, [], {}, ""])
async def test_fields_that_ask_for_nothing_are_let_through(served: Served, path: str, nothing: Any) -> None:
    names = REFUSED[path] if nothing is None else set(REFUSED[path]) - {"suffix", *REFUSED_IN_CHAT}
    neutral = dict.fromkeys(names, nothing)
    if type(nothing) is int:
        neutral = {name: value for name, value in neutral.items() if name not in LIMITS}
    if path == GENERATE:
        neutral["sampling_params"] = dict.fromkeys(REFUSED["sampling_params"], nothing)
    assert (await served.post(path, {**BODIES[path], **neutral})).status_code == 200


@pytest.mark.parametrize(
    ("path", "name"), [(CHAT, "thinking_token_budget"), (GENERATE, "max_thinking_tokens")]
)
async def test_a_limit_of_zero_asks_for_something(served: Served, path: str, name: str) -> None:
    response = await served.post(path, {**BODIES[path], name: 0})
    assert (response.status_code, response.json()["error"]["param"]) == (400, name)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("name", ["logprob_token_ids", "allowed_token_ids", "stop_token_ids"])
async def test_a_token_that_the_model_lacks_is_named_by_its_field(
    guide: Served, path: str, name: str
) -> None:
    logprobs: dict[str, Any] = {"logprobs": True if path == CHAT else 1}
    response = await guide.post(path, {**BODIES[path], **logprobs, name: [10**6]})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, name)
    assert error["message"].startswith(name) and "out of vocabulary" in error["message"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_every_key_that_is_no_token_is_named(served: Served, path: str) -> None:
    body = {**BODIES[path], "logit_bias": {"bad1": 50, "7": 1, "bad2": 20, "-1": 1}}
    error = (await served.post(path, body)).json()["error"]
    assert error["param"] == "logit_bias"
    assert all(repr(name) in error["message"] for name in ("bad1", "bad2", "-1"))


async def test_a_list_of_lists_of_tokens_is_for_a_batch(served: Served) -> None:
    body = {"return_logprob": True, "token_ids_logprob": [[0]]}
    response = await served.post(GENERATE, {"text": "hi", **body})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "token_ids_logprob")
    assert "flat list of integers" in response.json()["error"]["message"]
    assert (await served.post(GENERATE, {"text": ["hi"], **body})).status_code == 200


async def test_sglangs_prompt_tokens_are_for_whole_replies(served: Served) -> None:
    response = await served.chat(return_prompt_token_ids=True, stream=True)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "return_prompt_token_ids")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_over_the_context_says_so(cramped_guide: Served, stream: bool) -> None:
    for words in (70, 5000):  # counted in tokens, or in characters
        messages = [{"role": "user", "content": "hello " * words}]
        response = await cramped_guide.chat(messages=messages, stream=stream)
        assert response.status_code == 400
        assert "is longer than the model's context length" in response.json()["error"]["message"]


async def test_values_that_the_engines_take_without_the_feature_are_let_through(served: Served) -> None:
    fields = {
        "length_penalty": 1.0,
        "modalities": ["text"],
        "thinking_token_budget": -1,
        "verbosity": "medium",
    }
    assert (await served.chat(**fields)).status_code == 200
    assert (
        await served.post(GENERATE, {"text": "a", "sampling_params": {"beam_width": 1}})
    ).status_code == 200


async def test_unknown_fields_are_passed_over(served: Served) -> None:
    assert (await served.chat(min_characters=10)).status_code == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_token_rules_reach_the_sampler(served: Served, path: str) -> None:
    body = {**BODIES[path], "allowed_token_ids": [5, 6], "bad_words": ["bad", "bad"], "stop_regex": "a|b"}
    assert (await served.post(path, body)).status_code == 200
    params = served.engine.submitted[0][1]
    encode = served.engine.tokenizer.encode
    assert params.allowed_token_ids == frozenset({5, 6}) and params.stop_regex == ("a|b",)
    assert set(params.bad_words) == {
        tuple(encode(text, add_special_tokens=False)) for text in ("bad", " bad")
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"bad_words": [""]}, "bad_words"),
        ({"bad_words": [" "]}, "bad_words"),
        ({"bad_words": "x"}, "bad_words"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": ["x"]}, "allowed_token_ids[0]"),
        ({"stop_regex": "("}, "stop_regex"),
        ({"stop_regex": "(?=a)"}, "stop_regex"),
        ({"stop_regex": ["a"] * 9}, "stop_regex"),
        ({"stop_regex": [""]}, "stop_regex"),
        ({"stop_regex": "(.?){900}Z"}, "stop_regex"),
        ({"stop_regex": ["[a-z]{300}!"] * 4}, "stop_regex"),
        ({"logit_bias": {"9" * 5_000: 1}}, "logit_bias"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": 256}, "truncate_prompt_tokens"),
        ({"truncation_side": "middle"}, "truncation_side"),
        ({"logprob_token_ids": [5]}, "logprob_token_ids"),
        ({"rid": ""}, "rid"),
        ({"rid": "x" * 1_001}, "rid"),
    ],
)
async def test_wrong_values_name_their_field(served: Served, fields: dict[str, Any], param: str) -> None:
    for path in (CHAT, COMPLETIONS):
        response = await served.post(path, {**BODIES[path], **fields})
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == param
    pattern = {"text": "a", "sampling_params": {"stop_regex": "("}}
    assert (await served.post(GENERATE, pattern)).json()["error"]["param"] == "sampling_params.stop_regex"


async def test_tokens_that_the_model_lacks_are_out_of_vocabulary(cramped_guide: Served) -> None:
    for name, value in (("allowed_token_ids", [99_999]), ("logit_bias", {"99999": 1.0})):
        error = (await cramped_guide.chat(**{name: value})).json()["error"]
        size = cramped_guide.engine.model_info.vocab_size
        assert error["param"] == name and "out of vocabulary" in error["message"]
        assert "99999" in error["message"] and str(size) in error["message"]


async def test_the_model_writes_allowed_tokens_only(guide: Served) -> None:
    allowed = [40, 41, 42]
    fields = {"allowed_token_ids": allowed, "max_tokens": 8, "return_token_ids": True, "temperature": 1}
    reply = (await guide.chat(**fields)).json()
    assert set(reply["choices"][0]["token_ids"]) <= set(allowed)
    first = (await guide.chat(max_tokens=8, temperature=0)).json()["choices"][0]["message"]["content"]
    word = first.split()[0]
    other = (await guide.chat(max_tokens=8, temperature=0, bad_words=[word])).json()
    assert word not in other["choices"][0]["message"]["content"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, GENERATE])
async def test_a_stop_regex_ends_the_answer(served: Served, path: str) -> None:
    pattern = r"4\d"
    extra = {"sampling_params": {"stop_regex": pattern}} if path == GENERATE else {"stop_regex": pattern}
    reply = (await served.post(path, {**BODIES[path], **extra})).json()
    if path == GENERATE:
        assert reply["text"] == "The answer is 42"
        assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": pattern}
        return
    (choice,) = reply["choices"]
    assert (choice["message"]["content"] if path == CHAT else choice["text"]) == "The answer is 42"
    assert (choice["finish_reason"], choice["matched_stop"], choice["stop_reason"]) == (
        "stop",
        pattern,
        pattern,
    )


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_what_ended_an_answer_is_told_in_both_engines_words(served: Served, path: str) -> None:
    for fields, matched, reason in (
        ({"stop": "answer"}, "answer", "answer"),
        ({"max_tokens": 2}, None, None),
        ({"max_tokens": 100}, served.engine.eos, None),
    ):
        (choice,) = (await served.post(path, {**BODIES[path], **fields})).json()["choices"]
        assert (choice["matched_stop"], choice["stop_reason"]) == (matched, reason)


async def test_what_was_not_asked_for_is_null_in_whole_replies(served: Served) -> None:
    reply = (await served.chat()).json()
    assert reply["prompt_logprobs"] is reply["prompt_token_ids"] is reply["choices"][0]["token_ids"] is None
    (choice,) = (await served.post(COMPLETIONS, BODIES[COMPLETIONS])).json()["choices"]
    assert choice["prompt_logprobs"] is choice["prompt_token_ids"] is choice["token_ids"] is None


@pytest.mark.parametrize("side", [None, "left", "right"])
async def test_prompts_are_cut_to_their_first_or_last_tokens(served: Served, side: str | None) -> None:
    ids = list(range(5, 13))
    body = {"prompt": ids, "truncate_prompt_tokens": 4, "truncation_side": side, "return_token_ids": True}
    reply = (await served.post(COMPLETIONS, body)).json()
    kept = ids[:4] if side == "right" else ids[-4:]
    assert reply["choices"][0]["prompt_token_ids"] == kept == served.engine.submitted[0][0]


async def test_a_text_far_too_long_is_cut_to_what_fits(served: Served) -> None:
    text = "one two three " * 8_000
    ids = served.engine.tokenizer.encode(text)
    body = {"prompt": text, "truncate_prompt_tokens": -1, "max_tokens": 6, "echo": True}
    reply = (await served.post(COMPLETIONS, body)).json()
    assert served.engine.submitted[0][0] == ids[-250:]
    assert reply["choices"][0]["text"].startswith(served.engine.tokenizer.decode(ids[-250:]))
    messages = [{"role": "user", "content": text}]
    assert (await served.chat(messages=messages, truncate_prompt_tokens=100)).status_code == 200
    assert len(served.engine.submitted[1][0]) == 100


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("content", ["An apple a day", [{"type": "text", "text": "An apple a day"}]])
async def test_an_echo_begins_with_the_message_that_is_continued(
    served: Served, stream: bool, content: Any
) -> None:
    messages = [{"role": "user", "content": "a saying"}, {"role": "assistant", "content": content}]
    options: dict[str, Any] = {"messages": messages, "continue_final_message": True, "stream": stream}
    texts = []
    for echo in (True, False):
        response = await served.chat(**options, echo=echo, add_generation_prompt=False)
        texts.append(
            text_of(response.text) if stream else response.json()["choices"][0]["message"]["content"]
        )
    assert texts[0] == "An apple a day" + texts[1]
    asked = await served.chat(echo=True)  # the last message is the user's
    assert asked.json()["choices"][0]["message"]["content"] == texts[1]


def events_of(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]


def text_of(text: str) -> str:
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events_of(text))


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_usage_grows_with_a_stream_where_that_is_asked_for(served: Served, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    response = await served.post(path, {**BODIES[path], "stream": True, "stream_options": options})
    *events, last = events_of(response.text)
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(set(counts)) and counts[0] == (0 if path == CHAT else 1)
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == counts[-1]
    for usage in (event["usage"] for event in events):
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    options["include_usage"] = False
    response = await served.post(path, {**BODIES[path], "stream": True, "stream_options": options})
    assert all("usage" not in event for event in events_of(response.text))


async def test_every_chunk_of_a_plain_stream_has_a_text(served: Served) -> None:
    deltas = [e["choices"][0]["delta"] for e in events_of((await served.chat(stream=True)).text)]
    assert all(isinstance(delta["content"], str) for delta in deltas)


async def test_logprobs_write_tokens_as_ids_where_that_is_asked_for(served: Served) -> None:
    fields = {"return_tokens_as_token_ids": True, "return_token_ids": True}
    chat = (await served.chat(**fields, logprobs=True, top_logprobs=1)).json()["choices"][0]
    names = [f"token_id:{token_id}" for token_id in chat["token_ids"]]
    assert [entry["token"] for entry in chat["logprobs"]["content"]] == names
    assert chat["logprobs"]["content"][0]["top_logprobs"][0]["token"] == "token_id:0"
    body = {"prompt": "hi", **fields, "logprobs": 1}
    text = (await served.post(COMPLETIONS, body)).json()["choices"][0]
    assert text["logprobs"]["tokens"] == [f"token_id:{token_id}" for token_id in text["token_ids"]]
    assert names[0] in text["logprobs"]["top_logprobs"][0]
    plain = (await served.post(COMPLETIONS, {"prompt": "hi", "logprobs": 1})).json()["choices"][0]
    assert plain["logprobs"]["text_offset"] == text["logprobs"]["text_offset"]


async def test_named_tokens_are_scored_instead_of_the_likely_ones(guide: Served) -> None:
    fields = {"logprob_token_ids": [40, 41], "return_tokens_as_token_ids": True, "max_tokens": 3}
    chat = (await guide.chat(**fields, logprobs=True, top_logprobs=5)).json()["choices"][0]
    for entry in chat["logprobs"]["content"]:
        assert [top["token"] for top in entry["top_logprobs"]] == ["token_id:40", "token_id:41"]
    body = {"prompt": "hi", **fields, "logprobs": 0}
    text = (await guide.post(COMPLETIONS, body)).json()["choices"][0]["logprobs"]
    for token, top in zip(text["tokens"], text["top_logprobs"], strict=True):
        assert set(top) == {token, "token_id:40", "token_id:41"}


async def test_template_variables_come_in_fields_of_their_own(served: Served) -> None:
    bodies: list[dict[str, Any]] = [
        {"documents": [{"title": "t", "text": "x"}], "reasoning_effort": "none"},
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
    ]
    made = [ChatCompletionBody(**body) for body in bodies[::2]]
    assert made[0].template_arguments == {
        "documents": [{"title": "t", "text": "x"}],
        "reasoning_effort": "none",
        "enable_thinking": False,
    }
    assert made[1].template_arguments == {"reasoning_effort": "high", "enable_thinking": False}
    for body in bodies:
        assert (await served.chat(**body)).status_code == 200
    assert (await served.chat(thinking={"type": "x"})).json()["error"]["param"] == "thinking.type"


async def test_the_prompt_is_told_to_whom_asks_for_it(served: Served) -> None:
    fields = {"return_prompt_text": True}
    reply = (await served.chat(**fields, return_prompt_token_ids=True)).json()
    ids = served.engine.submitted[0][0]
    assert reply["choices"][0]["prompt_token_ids"] == ids
    assert reply["prompt_text"] == served.engine.tokenizer.decode(ids, skip_special_tokens=False)
    events = events_of((await served.chat(**fields, stream=True)).text)
    assert [event.get("prompt_text") for event in events] == [
        reply["prompt_text"],
        *[None] * (len(events) - 1),
    ]


async def test_ids_of_the_client_name_the_reply(served: Served) -> None:
    assert (await served.chat(rid="mine")).json()["id"] == "mine"
    assert (await served.chat(request_id="mine")).json()["id"] == "chatcmpl-mine"
    reply = await served.post(COMPLETIONS, {"prompt": "x", "request_id": "mine"})
    assert reply.json()["id"] == "cmpl-mine"


async def test_the_stop_string_stays_where_sglangs_name_asks_for_it(served: Served) -> None:
    for fields, text in (({}, "The "), ({"no_stop_trim": True}, "The answer")):
        reply = await served.post(COMPLETIONS, {"prompt": "x", "stop": "answer", **fields})
        assert reply.json()["choices"][0]["text"] == text


async def test_an_extra_key_keeps_prefixes_apart(served: Served) -> None:
    await served.chat(extra_key="tenant", cache_salt="salt")
    assert served.engine.submitted[0][2] == "tenant\0salt"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, GENERATE])
async def test_an_id_that_runs_is_refused_and_free_afterwards(served: Served, path: str) -> None:
    served.engine.hold_after = 1
    body = {**BODIES[path], "rid": "mine"}
    asking = asyncio.create_task(served.post(path, body))
    await served.engine.holding.wait()
    for other in (path, CHAT):
        error = (await served.post(other, {**BODIES[other], "rid": "mine"})).json()["error"]
        assert (error["param"], error["code"]) == ("rid", "duplicate_request_id") and "mine" in error[
            "message"
        ]
    assert (await served.post("/abort_request", {"rid": "mine"})).json()["aborted"] == 1
    assert (await asking).status_code == 200
    served.engine.hold_after = 10**9
    assert (await served.post(path, body)).status_code == 200


async def test_prompts_of_one_request_need_ids_of_their_own(served: Served) -> None:
    for path, prompts in ((COMPLETIONS, "prompt"), (GENERATE, "text")):
        body = {prompts: ["a", "b"], "rid": ["same", "same"]}
        assert (await served.post(path, body)).json()["error"]["param"] == "rid"
        assert (await served.post(path, {**body, "rid": ["one", "two"]})).status_code == 200


GENERATION_CONFIG = {"temperature": 0.3, "top_k": 7, "max_new_tokens": 9, "repetition_penalty": 1.5}


@pytest.mark.parametrize("wanted", ["auto", "none"])
async def test_what_a_request_leaves_out_is_by_generation_config_json(
    tmp_path: Path, wanted: Literal["auto", "none"]
) -> None:
    engine = ScriptedEngine()
    (tmp_path / "generation_config.json").write_text(json.dumps(GENERATION_CONFIG))
    engine.model_info = dataclasses.replace(engine.model_info, path=str(tmp_path))
    config = EngineConfig(generation_config=wanted)
    async with serving(build_app(engine, engine.tokenizer, config)) as served:
        await served.chat()
        await served.chat(temperature=1, top_k=-1, max_tokens=30, repetition_penalty=1)
        await served.post(GENERATE, {"text": "hi"})
    params = [params for _, params, *_ in engine.submitted]
    named = [(p.temperature, p.top_k, p.max_tokens, p.repetition_penalty) for p in params]
    by_model = (0.3, 7, 9, 1.5) if wanted == "auto" else (1.0, -1, None, 1.0)
    assert named == [by_model, (1, -1, 30, 1), (1.0, -1, 128, 1.0)]
