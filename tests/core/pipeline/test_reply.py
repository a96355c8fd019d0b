"""Reading what answers used."""

import json

import pytest

from radixway.core.pipeline import Chunks, MeteredChunks, Reply, TokenUsage, read_usage


class Pieces(Chunks):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self):
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        pass


def event(**fields) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(text: str) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}}])


async def metered(*pieces: bytes, several: bool = False) -> list[TokenUsage]:
    told: list[TokenUsage] = []
    stream = MeteredChunks(Pieces(*pieces), told.append, several=several)
    assert [chunk async for chunk in stream] == list(pieces)
    await stream.aclose()
    await stream.aclose()
    return told


@pytest.mark.parametrize(
    ("reply", "used"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}, TokenUsage(5, 2)),
        (
            {
                "usage": {
                    "prompt_tokens": 5,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
            },
            TokenUsage(5, 2, 4),
        ),
        (
            {"meta_info": {"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 1}},
            TokenUsage(5, 2, 1),
        ),
        ([{"meta_info": {"prompt_tokens": 5, "completion_tokens": 2}}] * 3, TokenUsage(15, 6)),
        ({"usage": None}, None),
        ({"usage": {"completion_tokens": "many"}}, None),
        ([{"meta_info": {"prompt_tokens": 5, "completion_tokens": 2}}, {"text": "no figures"}], None),
        ("a text", None),
        ([], None),
    ],
)
def test_a_whole_reply_says_what_it_used_in_its_workers_dialect(reply, used):
    assert read_usage(json.dumps(reply).encode()) == used


def test_what_is_no_json_reports_nothing():
    assert read_usage(b"<html>") is None
    assert read_usage(b"[" * 100_000) is None


def test_figures_beyond_all_sense_are_none():
    assert read_usage(b'{"usage": {"prompt_tokens": 1, "completion_tokens": 9%s}}' % (b"9" * 400)) is None


async def test_a_streams_last_report_counts():
    usage = event(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 3})
    assert await metered(delta("a"), delta("b"), usage, b"data: [DONE]\n\n") == [TokenUsage(9, 3)]


async def test_reports_that_grow_with_the_stream_are_not_added_up():
    events = [event(text="x", meta_info={"prompt_tokens": 4, "completion_tokens": n}) for n in (1, 2, 3)]
    assert await metered(*events[:2], events[2] + b"data: [DONE]\n\n") == [TokenUsage(4, 3)]


async def test_each_answer_of_a_batch_counts():
    events = [
        event(text="x", index=index, meta_info={"prompt_tokens": 4, "completion_tokens": n})
        for n in (1, 2)
        for index in (0, 1)
    ]
    assert await metered(*events[:3], events[3], several=True) == [TokenUsage(8, 4)]


async def test_a_stream_without_figures_is_estimated_by_its_events_that_bring_text():
    said = 'they say "completion_tokens": 99'
    empty = event(choices=[{"delta": {"role": "assistant", "content": ""}}], usage=None)
    assert await metered(empty, delta("a") + delta(said), delta("c"), b"data: [DONE]\n\n") == [
        TokenUsage(0, 3, 0, estimated=True)
    ]


@pytest.mark.parametrize("texts", range(8))
async def test_the_estimate_counts_each_text_of_short_and_long_streams_once(texts):
    role = event(choices=[{"delta": {"role": "assistant", "content": ""}}])
    pieces = [
        role,
        *(delta("word") for _ in range(texts)),
        event(choices=[{"delta": {}}]),
        b"data: [DONE]\n\n",
    ]
    expected = [TokenUsage(0, texts, 0, estimated=True)]
    assert await metered(*pieces) == expected
    assert await metered(b"".join(pieces)) == expected
    assert await metered(b"".join(pieces[:2]), *pieces[2:]) == expected


async def test_a_stream_tells_every_listener_once_and_in_their_order():
    told: list[str] = []
    stream = MeteredChunks(Pieces(delta("a")), lambda used: told.append(f"first {used.completion_tokens}"))
    stream.add_listener(lambda used: told.append(f"second {used.completion_tokens}"))
    assert [chunk async for chunk in stream] == [delta("a")]
    await stream.aclose()
    await stream.aclose()
    assert told == ["first 1", "second 1"]


def test_a_reply_reports_the_usage_of_the_body_that_it_has_now():
    def body(tokens: int) -> bytes:
        return json.dumps({"usage": {"prompt_tokens": 5, "completion_tokens": tokens}}).encode()

    reply = Reply(200, [], "w", body(2))
    assert reply.reported_usage() == TokenUsage(5, 2)
    assert reply.reported_usage() is reply.reported_usage()  # read once
    reply.body = body(7)
    assert reply.reported_usage() == TokenUsage(5, 7)
    reply.body = b""
    assert reply.reported_usage() is None
    reply.body = body(9)
    reply.note_usage(TokenUsage(5, 9))
    assert reply.reported_usage() == TokenUsage(5, 9)
    reply.body = body(3)
    assert reply.reported_usage() == TokenUsage(5, 3)
