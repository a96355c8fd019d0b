"""The bodies by which two workers share a request: vLLM's and SGLang's forms, field by field."""

import json

import pytest

from radixway.core.config import WorkerSettings
from radixway.core.pipeline import ENDPOINTS, BadRequest, Request
from radixway.core.telemetry import Journal
from radixway.routing import Worker
from radixway.routing.transports.kv_transfer import (
    build_sglang_pair,
    build_vllm_decode,
    build_vllm_prefill,
    explain_unsplit,
    strip_transfer_fields,
)

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def request(body, surface="openai.chat") -> Request:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(id="r", endpoint=ENDPOINTS[surface], path="/", journal=Journal("r"), raw=raw)


def prefiller(url="http://p:8000", **disaggregation) -> Worker:
    return Worker(
        WorkerSettings(url=url, role="prefill", disaggregation={"dialect": "sglang", **disaggregation})
    )


def test_vllms_prefill_worker_is_asked_for_one_token_and_to_keep_the_kv():
    asked = request(
        CHAT
        | {
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 50,
            "min_tokens": 5,
            "stop": ["\n"],
            "temperature": 0.5,
        }
    )
    before = asked.raw
    assert json.loads(build_vllm_prefill(asked).raw) == CHAT | {
        "stream": False,
        "max_tokens": 1,
        "ignore_eos": True,
        "temperature": 0.5,
        "kv_transfer_params": {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        },
    }
    assert asked.raw == before


def test_max_completion_tokens_is_one_too_where_it_is_given():
    body = json.loads(build_vllm_prefill(request(CHAT | {"max_completion_tokens": 9})).raw)
    assert body["max_completion_tokens"] == body["max_tokens"] == 1


def test_vllms_decode_worker_gets_the_request_as_it_came_and_what_the_prefill_said():
    params = b'{"do_remote_prefill": true,  "remote_block_ids": [1, 2], "remote_port": 5600, "new": 1e-5}'
    answer = b'{"choices": [], "kv_transfer_params": ' + params + b"}"
    raw = b'{"model":"m","messages":[],"temperature":1.50}'
    going_on = build_vllm_decode(request(raw), answer)
    assert going_on.raw == raw[:-1] + b',"kv_transfer_params":' + params + b"}"


@pytest.mark.parametrize("answer", [b"{}", b'{"kv_transfer_params": null}', b"no", b"[]", b"\xff"])
def test_a_prefill_that_hands_nothing_on_is_seen(answer):
    assert build_vllm_decode(request(CHAT), answer) is None


def test_sglangs_two_workers_meet_in_a_room_of_their_own():
    rooms = set()
    for _ in range(20):
        body = json.loads(
            build_sglang_pair(request(CHAT | {"stream": True}), prefiller(bootstrap_port=9001)).raw
        )
        rooms.add(body.pop("bootstrap_room"))
        assert body == CHAT | {"stream": True, "bootstrap_host": "p", "bootstrap_port": 9001}
    assert len(rooms) == 20 and all(0 <= room < 2**63 for room in rooms)


def test_an_ipv6_address_is_put_in_brackets():
    body = json.loads(build_sglang_pair(request(CHAT), prefiller("http://[::1]:8000")).raw)
    assert body["bootstrap_host"] == "[::1]"


@pytest.mark.parametrize(
    "prompts", [{"text": ["a", "b", "c"]}, {"input_ids": [[1], [2], [3]]}, {"text": ["a", "b", "c"], "n": 1}]
)
def test_each_prompt_of_a_batch_has_a_room(prompts):
    body = json.loads(build_sglang_pair(request(prompts, "generate"), prefiller()).raw)
    assert body["bootstrap_host"] == ["p"] * 3 and body["bootstrap_port"] == [8998] * 3
    assert len(set(body["bootstrap_room"])) == 3


def test_token_ids_are_one_prompt():
    body = json.loads(build_sglang_pair(request({"input_ids": [1, 2, 3]}, "generate"), prefiller()).raw)
    assert isinstance(body["bootstrap_room"], int)


@pytest.mark.parametrize(
    "said",
    [
        {"kv_transfer_params": {"do_remote_prefill": True, "remote_host": "10.0.0.1"}},
        {"bootstrap_host": "10.0.0.1", "bootstrap_port": 1, "bootstrap_room": 7},
    ],
)
def test_what_clients_say_of_transfers_is_never_passed_on(said):
    assert json.loads(strip_transfer_fields(request(CHAT | said)).raw) == CHAT
    going_on = json.loads(build_sglang_pair(request(CHAT | said), prefiller()).raw)
    assert going_on["bootstrap_host"] == "p" and going_on["bootstrap_room"] != 7
    params = {"remote_port": 5600}
    decode = json.loads(
        build_vllm_decode(request(CHAT | said), json.dumps({"kv_transfer_params": params}).encode()).raw
    )
    assert decode == CHAT | {"kv_transfer_params": params}


def test_nor_in_another_spelling():
    hidden = b'{"model":"m","kv\\u005ftransfer_params":{"remote_host":"10.0.0.1"}}'
    assert strip_transfer_fields(request(hidden)).raw == b'{"model":"m"}'


def test_a_request_that_says_nothing_of_it_keeps_its_bytes():
    asked = request(b'{"model":  "m" }')
    assert strip_transfer_fields(asked) is asked


@pytest.mark.parametrize(
    ("surface", "body", "why"),
    [
        ("openai.chat", CHAT, None),
        ("openai.chat", CHAT | {"n": 1, "logprobs": True}, None),
        ("openai.chat", CHAT | {"n": 2}, "several answers"),
        ("openai.completions", {"prompt": "a", "best_of": 3}, "several answers"),
        ("openai.completions", {"prompt": "a"}, None),
        ("openai.completions", {"prompt": [1, 2, 3]}, None),
        ("openai.completions", {"prompt": ["a", "b"]}, "list"),
        ("openai.completions", {"prompt": [[1], [2]]}, "list"),
        ("openai.completions", {"prompt": "a", "echo": True}, "log-probabilities"),
        ("openai.completions", {"prompt": "a", "prompt_logprobs": 0}, "log-probabilities"),
        ("generate", {"text": "a", "return_logprob": True}, None),
        ("generate", {"text": "a", "return_logprob": True, "logprob_start_len": 0}, "log-probabilities"),
        ("generate", {"text": "a", "sampling_params": {"n": 4}}, "several answers"),
    ],
)
def test_what_cannot_be_split_is_told(surface, body, why):
    told = explain_unsplit(request(body, surface), {"sglang"})
    assert told is None if why is None else why in told


def test_vllm_answers_no_generate():
    assert explain_unsplit(request({"text": "a"}, "generate"), {"vllm"}) == "vLLM has no /generate"


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"a"', b'{"messages": [}'])
def test_a_body_that_is_no_json_object_is_the_clients_mistake(raw):
    assert explain_unsplit(request(raw), {"vllm"}) == "its body cannot be read"
    for edit in (build_vllm_prefill, lambda asked: build_sglang_pair(asked, prefiller())):
        with pytest.raises(BadRequest):
            edit(request(raw))
