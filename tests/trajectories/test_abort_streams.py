"""Streams of `/generate` that go on where a worker broke them off. Real sockets on both sides."""

import json

from support.generate_worker import (
    ABORT,
    ASK,
    Script,
    events_of,
    gateway_with,
    hang,
    only_new,
    reply,
    so_far,
    text_of,
)


async def test_a_stream_goes_on_with_the_events_of_the_next_attempt():
    script = Script(
        [so_far(20), so_far(20, 21), so_far(20, 21, 22, finish=ABORT)],
        [so_far(23, prompt=6, version="2"), reply([23, 2], prompt=6, version="2")],
    )
    async with gateway_with(script) as gateway:
        events = await events_of(gateway)
    assert script.bodies[1]["input_ids"] == [7, 8, 9, 20, 21, 22]
    assert [len(event["output_ids"]) for event in events] == [1, 2, 4, 5]
    assert events[0] == so_far(20) and events[1] == so_far(20, 21)
    last = events[-1]
    assert last["output_ids"] == [20, 21, 22, 23, 2] and last["text"] == text_of(last["output_ids"])
    assert last["meta_info"]["finish_reason"]["type"] == "stop" and last["meta_info"]["resumed"] == 1
    assert [span["end"] for span in last["meta_info"]["weight_versions"]] == [3, 5]
    assert [entry[1] for entry in last["meta_info"]["output_token_logprobs"]] == last["output_ids"]


async def test_a_stream_of_what_is_new_goes_on_with_what_is_new():
    script = Script(
        [only_new(1, 20), only_new(2, 21), only_new(3, 22, finish=ABORT)],
        [only_new(1, 23, prompt=6), only_new(2, 2, prompt=6, finish={"type": "stop", "matched": 2})],
    )
    async with gateway_with(script) as gateway:
        events = await events_of(gateway)
    assert script.bodies[1]["input_ids"] == [7, 8, 9, 20, 21, 22]
    assert [token for event in events for token in event["output_ids"]] == [20, 21, 22, 23, 2]
    assert "".join(event["text"] for event in events) == text_of([20, 21, 22, 23, 2])
    logprobs = [entry for event in events for entry in event["meta_info"]["output_token_logprobs"]]
    assert [entry[1] for entry in logprobs] == [20, 21, 22, 23, 2]
    assert events[-1]["meta_info"]["completion_tokens"] == 5


async def test_a_stream_whose_last_event_holds_less_than_was_seen_goes_on_from_what_was_seen():
    emptied = {"text": "", "output_ids": [], "meta_info": {"id": "r", "finish_reason": ABORT}}
    script = Script([so_far(20), so_far(20, 21), so_far(20, 21, 22), emptied], [reply([2], prompt=6)])
    async with gateway_with(script) as gateway:
        events = await events_of(gateway)
    assert script.bodies[1]["input_ids"] == [7, 8, 9, 20, 21, 22]
    assert events[-1]["output_ids"] == [20, 21, 22, 2]


async def test_a_stream_that_aborts_again_and_again_ends_with_the_abort():
    script = Script(*([so_far(20 + n, finish=ABORT, prompt=3 + n)] for n in range(9)))
    async with gateway_with(script) as gateway:
        events = await events_of(gateway)
    assert [event["output_ids"] for event in events] == [[20, 21, 22, 23, 24]]
    assert events[0]["meta_info"]["finish_reason"] == ABORT and len(script.bodies) == 5


async def test_what_fails_after_an_abort_leaves_the_stream_as_it_was():
    script = Script([so_far(20), so_far(20, 21, finish=ABORT)], (400, {"error": {"message": "too long"}}))
    async with gateway_with(script) as gateway:
        assert await events_of(gateway) == [so_far(20), so_far(20, 21, finish=ABORT)]
    assert len(script.bodies) == 2


async def test_an_error_in_a_later_attempt_ends_the_stream():
    script = Script(
        [so_far(20, finish=ABORT)], [so_far(21, prompt=4), {"error": {"message": "out of memory"}}]
    )
    async with gateway_with(script) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=ASK | {"stream": True}) as response:
            raw = await response.read()
    *events, last = [json.loads(line[6:]) for line in raw.split(b"\n\n") if line]
    assert [event["output_ids"] for event in events] == [[20, 21]] and last["error"]
    assert len(script.bodies) == 2


async def test_a_stream_is_cut_at_a_stop_string_across_the_seam():
    script = Script([so_far(20, 21, finish=ABORT)], [so_far(22, 23, prompt=5), hang])
    async with gateway_with(script) as gateway:
        events = await events_of(gateway, sampling_params={"stop": "vwx", "max_new_tokens": 9})
    assert events[-1]["text"] == "u" and events[-1]["output_ids"] == [20, 21, 22, 23]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "stop", "matched": "vwx"}


async def test_an_unseen_stream_is_retried_whole():
    script = Script([so_far(20, finish=ABORT)], [so_far(30), reply([30, 2])])
    async with gateway_with(script, policy="retry") as gateway:
        assert await events_of(gateway) == [so_far(30), reply([30, 2])]


async def test_a_stream_that_was_seen_is_not_retried():
    script = Script([so_far(20), so_far(20, 21, finish=ABORT)], [reply([30, 2])])
    async with gateway_with(script, policy="retry") as gateway:
        assert await events_of(gateway) == [so_far(20), so_far(20, 21, finish=ABORT)]
    assert len(script.bodies) == 1


async def test_streams_of_garbage_pass_through_as_they_are():
    garbage = [
        {"type": "abort"},
        {"meta_info": {"finish_reason": ABORT}, "output_ids": ["abort"]},
        [1],
        "abort",
    ]
    script = Script(garbage)
    async with gateway_with(script) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=ASK | {"stream": True}) as response:
            raw = await response.read()
    events = [b"data: " + json.dumps(event).encode() for event in garbage]
    assert raw == b"\n\n".join([*events, b"data: [DONE]", b""])


async def test_a_client_that_leaves_a_stream_is_told_to_the_worker():
    script = Script([so_far(20), hang])
    async with gateway_with(script) as gateway:
        body = ASK | {"stream": True, "rid": "mine"}
        async with gateway.client.post(gateway.url + "/generate", json=body) as response:
            await response.content.readany()
            await script.hanging.wait()
        await script.told.wait()
    assert script.aborted == ["mine"]


async def test_a_client_that_leaves_a_resumed_stream_is_told_to_the_worker():
    script = Script([so_far(20, finish=ABORT)], [so_far(21, prompt=4), hang])
    async with gateway_with(script) as gateway:
        body = ASK | {"stream": True, "rid": "mine"}
        async with gateway.client.post(gateway.url + "/generate", json=body) as response:
            first = await response.content.readany()
            assert json.loads(first.removeprefix(b"data: "))["output_ids"] == [20, 21]
        await script.told.wait()
    assert set(script.aborted) == {"mine"}


async def test_a_stream_read_to_its_end_tells_no_worker():
    script = Script([so_far(20), reply([20, 2])])
    async with gateway_with(script) as gateway:
        await events_of(gateway)
    assert script.aborted == []
