"""Aborted answers at the gateway, from workers that abort on cue. Real sockets on both sides."""

import asyncio

import pytest

from support.generate_worker import (
    ABORT,
    ASK,
    Script,
    ask,
    gateway_with,
    hang,
    reply,
    steps,
    text_of,
    until_idle,
)


async def test_the_second_attempt_goes_on_from_the_accumulated_ids():
    script = Script(reply([20, 21], ABORT), reply([22, 23, 2], prompt=5, version="2", odd=[1e-5]))
    async with gateway_with(script) as gateway:
        status, answer, headers = await ask(gateway, odd_field={"x": 1})
        resumed = await steps(gateway, headers, "resume")
    first, second = script.bodies
    assert second["input_ids"] == [7, 8, 9, 20, 21] and second["odd_field"] == {"x": 1}
    assert second["sampling_params"] == {"max_new_tokens": 8, "min_new_tokens": 1, "temperature": 0}
    assert second["rid"] == first["rid"]
    ids, meta = [20, 21, 22, 23, 2], answer["meta_info"]
    assert status == 200 and answer["output_ids"] == ids and answer["text"] == text_of(ids)
    assert [entry[1] for entry in meta["output_token_logprobs"]] == ids
    assert meta["finish_reason"] == {"type": "stop", "matched": 2}
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (3, 5, 1)
    assert meta["weight_version"] == "2" and meta["odd"] == [1e-5] and meta["resumed"] == 1
    assert meta["weight_versions"] == [
        {"version": "1", "start": 0, "end": 2},
        {"version": "2", "start": 2, "end": 5},
    ]
    assert [(step["tokens"], step["exact"]) for step in resumed] == [(2, True)]


async def test_after_the_last_attempt_the_answer_so_far_is_the_answer():
    script = Script(*(reply([20 + n], ABORT, prompt=3 + n) for n in range(9)))
    async with gateway_with(script) as gateway:
        status, answer, _ = await ask(gateway)
    assert status == 200 and len(script.bodies) == 5
    assert answer["output_ids"] == [20, 21, 22, 23, 24]
    assert answer["meta_info"]["finish_reason"] == ABORT and answer["meta_info"]["resumed"] == 4


async def test_an_answer_that_has_all_its_tokens_is_not_asked_for_again():
    script = Script(reply([20, 21], ABORT), reply(list(range(30, 38)), ABORT, prompt=5))
    async with gateway_with(script) as gateway:
        _, answer, _ = await ask(gateway)
    assert len(script.bodies) == 2 and len(answer["output_ids"]) == 10
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 10}


async def test_without_a_number_of_tokens_the_default_is_reduced():
    script = Script(reply([20, 21], ABORT), reply([2]))
    async with gateway_with(script) as gateway:
        await ask(gateway, sampling_params=None)
    assert script.bodies[1]["sampling_params"] == {"max_new_tokens": 126}


async def test_a_text_prompt_goes_on_as_the_ids_that_the_worker_makes_of_it():
    script = Script(reply([20, 21], ABORT), reply([2], prompt=5))
    async with gateway_with(script) as gateway:
        _, answer, _ = await gateway.post("/generate", {"text": "hello", "sampling_params": {}})
    assert script.bodies[1]["input_ids"] == [7, 8, 9, 20, 21] and "text" not in script.bodies[1]
    assert answer["output_ids"] == [20, 21, 2]


async def test_a_text_prompt_that_nobody_can_count_goes_on_as_text():
    script = Script(reply([20, 21], ABORT, prompt=4), reply([2], prompt=6))
    async with gateway_with(script) as gateway:
        _, answer, headers = await gateway.post("/generate", {"text": "hello", "sampling_params": {}})
        assert [step["exact"] for step in await steps(gateway, headers, "resume")] == [False]
    assert script.bodies[1]["text"] == "hello" + text_of([20, 21]) and "input_ids" not in script.bodies[1]
    assert answer["output_ids"] == [20, 21, 2]


async def test_tokens_without_the_logprobs_that_were_asked_for_are_sampled_again():
    broken_off = reply([20, 21, 22], ABORT)
    del broken_off["meta_info"]["output_token_logprobs"][1:]
    script = Script(broken_off, reply([31, 2], prompt=4))
    async with gateway_with(script) as gateway:
        _, answer, _ = await ask(gateway)
    assert script.bodies[1]["input_ids"] == [7, 8, 9, 20]
    assert answer["output_ids"] == [20, 31, 2] and answer["text"] == text_of([20, 31, 2])
    assert len(answer["meta_info"]["output_token_logprobs"]) == 3


async def test_a_request_aborted_while_it_waited_is_asked_again_as_it_was():
    waited = {"text": "", "output_ids": [], "meta_info": {"id": "r", "finish_reason": ABORT}}
    script = Script(waited, reply([20, 2]))
    async with gateway_with(script) as gateway:
        _, answer, _ = await ask(gateway)
    assert script.bodies[0] == script.bodies[1]
    assert answer["output_ids"] == [20, 2] and answer["meta_info"]["prompt_tokens"] == 3


async def test_a_stop_string_across_the_seam_ends_the_answer():
    script = Script(reply([20, 21], ABORT), reply([22, 23, 24], prompt=5))  # "uv", "wxy"
    async with gateway_with(script) as gateway:
        _, answer, _ = await ask(gateway, sampling_params={"max_new_tokens": 10, "stop": ["vw", "zz"]})
    assert answer["text"] == "u" and answer["output_ids"] == [20, 21, 22]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "vw"}
    assert answer["meta_info"]["completion_tokens"] == 3
    assert len(answer["meta_info"]["output_token_logprobs"]) == 3


async def test_under_a_grammar_an_answer_is_begun_anew():
    script = Script(reply([20, 21], ABORT), reply([30, 2]))
    async with gateway_with(script) as gateway:
        _, answer, _ = await ask(gateway, sampling_params={"json_schema": "{}"})
    assert script.bodies[0] == script.bodies[1] and answer["output_ids"] == [30, 2]


async def test_while_nobody_can_answer_the_next_attempt_is_made_later():
    busy = [(503, {"error": "loading weights"})] * 3  # as often as one attempt asks
    script = Script(reply([20, 21], ABORT), *busy, reply([2], prompt=5))
    async with gateway_with(script) as gateway:
        _, answer, headers = await ask(gateway)
        assert [step["attempt"] for step in await steps(gateway, headers, "resume") if "attempt" in step] == [
            2,
            3,
        ]
    assert answer["output_ids"] == [20, 21, 2] and len(script.bodies) == 5


@pytest.mark.parametrize(
    "params", ['{"n": 1}', '{"n":1, "top_k": 1}', '{"n": null}', '{"stop": "\\"n\\": 2"}']
)
async def test_one_answer_is_one_answer_however_it_is_written(params):
    script = Script(reply([2]))
    async with gateway_with(script) as gateway:
        body = b'{"input_ids" : [ 7 ], "sampling_params": %b}' % params.encode()
        assert (await gateway.post("/generate", body))[0] == 200
    assert script.bodies[0]["rid"]  # as no batch would have


async def test_what_fails_after_an_abort_leaves_the_answer_so_far():
    script = Script(reply([20, 21], ABORT), (400, {"error": {"message": "too long"}}))
    async with gateway_with(script) as gateway:
        status, answer, _ = await ask(gateway)
    assert status == 200 and answer == reply([20, 21], ABORT) and len(script.bodies) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"finish": "abort"}',
        b'["abort"]',
        b'"abort"',
        b'{"meta_info":  "abort"}',
        b'{"meta_info": {"finish_reason":  "abort"}}',
        b'{"output_ids": ["x"],  "meta_info": {"finish_reason": {"type": "abort"}}}',
        b'{"output_ids": 7,  "meta_info": {"finish_reason": {"type": "abort"}}}',
        b'{"meta_info": {"finish_reason": {"type": "abort"}, "output_token_logprobs": [[1]]}}',
        b'{"output_ids": [5], "meta_info": {"finish_reason": {"type": "abort", "status_code": 400}}}',
    ],
)
async def test_garbage_passes_through_as_it_is(garbage):
    script = Script(garbage)
    async with gateway_with(script) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=ASK) as response:
            assert response.status == 200 and await response.read() == garbage
    assert len(script.bodies) == 1


async def test_an_abort_that_was_asked_for_is_passed_on():
    script = Script(reply([20, 21], ABORT))
    async with gateway_with(script, wait_s=3600) as gateway:
        asking = asyncio.create_task(ask(gateway, rid="mine"))
        await script.asked.wait()
        assert gateway.gateway.aborted.mark_aborted("mine") == 1
        _, answer, _ = await asking
    assert answer == reply([20, 21], ABORT) and len(script.bodies) == 1


async def test_the_policy_partial_passes_everything_on():
    script = Script(reply([20, 21], ABORT))
    async with gateway_with(script, policy="partial") as gateway:
        assert (await ask(gateway))[1] == reply([20, 21], ABORT)
    assert len(script.bodies) == 1


async def test_the_policy_retry_asks_for_the_whole_again():
    script = Script(reply([20], ABORT), reply([21], ABORT), reply([22, 2]))
    async with gateway_with(script, policy="retry") as gateway:
        _, answer, headers = await ask(gateway)
        assert [step["attempt"] for step in await steps(gateway, headers, "retry_aborted")] == [2, 3]
    assert answer == reply([22, 2]) and script.bodies[0] == script.bodies[1] == script.bodies[2]


async def test_the_policy_retry_gives_the_last_reply_when_it_is_exhausted():
    script = Script(*(reply([20 + n], ABORT) for n in range(9)))
    async with gateway_with(script, policy="retry") as gateway:
        assert (await ask(gateway))[1] == reply([24], ABORT)
    assert len(script.bodies) == 5


async def test_the_policy_retry_leaves_a_400_alone():
    script = Script((400, reply([20], ABORT)))
    async with gateway_with(script, policy="retry") as gateway:
        assert (await ask(gateway))[0] == 400
    assert len(script.bodies) == 1


async def test_a_batch_is_resumed_answer_by_answer():
    script = Script([reply([20, 2]), reply([21], ABORT)], reply([31, 2], prompt=3))
    batch = {
        "input_ids": [[1, 2], [3, 4]],
        "rid": ["a", "b"],
        "sampling_params": [{"top_k": 1}, {"top_k": 2}],
    }
    async with gateway_with(script) as gateway:
        status, answers, _ = await ask(gateway, **batch)
    alone = script.bodies[1]
    assert status == 200 and (alone["input_ids"], alone["rid"]) == ([3, 4, 21], "b")
    assert alone["sampling_params"] == {"top_k": 2, "max_new_tokens": 127}
    assert [answer["output_ids"] for answer in answers] == [[20, 2], [21, 31, 2]]


async def test_several_samples_of_a_prompt_are_resumed_one_by_one():
    script = Script([reply([20, 2]), reply([21], ABORT)], reply([31, 2], prompt=4))
    async with gateway_with(script) as gateway:
        status, answers, _ = await ask(gateway, sampling_params={"n": 2, "max_new_tokens": 5})
    assert status == 200 and script.bodies[1]["input_ids"] == [7, 8, 9, 21]
    assert script.bodies[1]["sampling_params"] == {"n": 1, "max_new_tokens": 4}
    assert [answer["output_ids"] for answer in answers] == [[20, 2], [21, 31, 2]]


async def test_a_client_that_leaves_is_told_to_the_worker():
    script = Script(hang)
    async with gateway_with(script) as gateway:
        asking = asyncio.create_task(ask(gateway, rid="mine"))
        await script.hanging.wait()
        asking.cancel()
        await script.told.wait()
    assert script.aborted == ["mine"]


async def test_a_client_that_leaves_the_second_attempt_is_told_to_the_worker():
    script = Script(reply([20], ABORT), hang)
    async with gateway_with(script) as gateway:
        asking = asyncio.create_task(ask(gateway))
        await script.hanging.wait()
        asking.cancel()
        await script.told.wait()
    assert script.aborted == [script.bodies[0]["rid"]]


async def test_a_client_that_leaves_between_two_attempts_ends_the_wait():
    script = Script(reply([20], ABORT))
    async with gateway_with(script, policy="retry", wait_s=3600) as gateway:
        asking = asyncio.create_task(ask(gateway))
        await script.asked.wait()
        asking.cancel()
    assert len(script.bodies) == 1


async def test_a_worker_without_abort_request_is_not_told_again():
    script = Script(hang, abort_status=404)
    async with gateway_with(script) as gateway:
        for attempt in range(2):
            script.hanging.clear()
            asking = asyncio.create_task(ask(gateway))
            await script.hanging.wait()
            asking.cancel()
            if attempt == 0:
                await script.told.wait()
            await until_idle(gateway)
    assert len(script.aborted) == 1
