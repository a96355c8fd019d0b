"""What shows that an answer is whole, protocol by protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixway.pipeline import IncompleteAnswerError, StreamEnd, check_whole_reply

DONE = b"data: [DONE]\n\n"


def event(said: Any) -> bytes:
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def choices(*marks: tuple[int, str | None], **more: Any) -> bytes:
    told = [{"index": index, "delta": {"content": "a"}, "finish_reason": why} for index, why in marks]
    return event({"choices": told, **more})


def generated(index: int, why: str | None) -> bytes:
    return event({"index": index, "text": "a", "meta_info": {"finish_reason": why and {"type": why}}})


WORD, STOP, USAGE = choices((0, None)), choices((0, "stop")), event({"choices": [], "usage": {}})
PING = b": ping\n\n"
OPENAI_ERROR = event({"error": {"message": "no memory"}})

WHOLE = {
    "vllm": ("openai.chat", [WORD, STOP, USAGE, DONE]),
    "both marks and a ping": ("openai.chat", [WORD, STOP, DONE, PING]),
    "no finish reason": ("openai.chat", [WORD, DONE]),
    "no mark of the end": ("openai.chat", [WORD, STOP]),
    "no mark of the end, and usage": ("openai.chat", [WORD, STOP, USAGE, PING]),
    "one chunk": ("openai.completions", [WORD + STOP + DONE]),
    "on Windows": ("openai.chat", [WORD + STOP.replace(b"\n", b"\r\n")]),
    "the worker's error": ("openai.chat", [WORD, OPENAI_ERROR]),
    "sglang": ("generate", [generated(0, None), generated(0, "length"), DONE]),
    "sglang without mark": ("generate", [generated(0, None), generated(0, "abort")]),
    "tgi": ("tgi.generate_stream", [event({"token": {}}), event({"token": {}, "generated_text": "a"})]),
    "tgi's error": ("tgi.generate_stream", [event({"token": {}}), event({"error": "overloaded"})]),
}
CUT = {
    "words": ("openai.chat", [WORD, WORD]),
    "usage in every event": ("openai.chat", [choices((0, None), usage={"completion_tokens": 1})]),
    "an empty finish reason": ("openai.chat", [choices((0, ""))]),
    "what a text says": ("openai.chat", [event({"choices": [{"delta": {"content": "data: [DONE]"}}]})]),
    "the other protocol's end": ("openai.chat", [generated(0, "stop")]),
    "no error": ("openai.chat", [choices((0, None), error=None)]),
    "sglang": ("generate", [generated(0, None)]),
    "tgi": ("tgi.generate_stream", [event({"token": {}, "generated_text": None})]),
    "pings": ("openai.chat", [PING, PING]),
    "nothing": ("openai.chat", []),
    "another shape": ("openai.chat", [event({"choices": [{"index": "a"}]}), event([1]), event("x")]),
}


def ended(protocol: str, chunks: list[bytes], answers: int | None = 1) -> StreamEnd:
    end = StreamEnd(protocol, answers)
    for chunk in chunks:
        end.note(chunk)
    return end


@pytest.mark.parametrize("name", WHOLE)
def test_an_end_is_seen(name: str) -> None:
    protocol, chunks = WHOLE[name]
    assert ended(protocol, chunks).check() == b""
    assert ended(protocol, [b"".join(chunks)]).check() == b""


@pytest.mark.parametrize("name", CUT)
def test_a_stream_without_its_end_is_not_whole(name: str) -> None:
    with pytest.raises(IncompleteAnswerError, match="finish reason"):
        ended(*CUT[name]).check()


@pytest.mark.parametrize("answers", [2, None])
def test_of_several_answers_each_must_end(answers: int | None) -> None:
    words = [choices((0, None)), choices((1, None)), choices((0, "stop"))]
    more = [choices((1, None))] * 10
    with pytest.raises(IncompleteAnswerError):
        ended("openai.chat", [*words, *more], answers).check()
    assert ended("openai.chat", [*words, *more, choices((1, "length"))], answers).check() == b""
    assert ended("openai.chat", [*words, *more, DONE], answers).check() == b""
    assert ended("generate", [generated(1, "stop"), generated(0, "stop")], answers).check() == b""


def test_an_answer_that_has_not_begun_is_missing_where_it_is_known_how_many_there_are() -> None:
    with pytest.raises(IncompleteAnswerError):
        ended("openai.completions", [choices((0, "stop"))], 2).check()


def test_of_a_long_stream_only_the_last_chunks_are_kept() -> None:
    end = ended("openai.chat", [WORD] * 10_000)
    assert len(end._last) < 100
    end.note(STOP)
    assert end.check() == b""


@pytest.mark.parametrize("rest", [DONE.strip(), STOP.strip(), STOP.replace(b"\n", b""), b"\n", b""])
def test_what_no_blank_line_ends_belongs_to_the_stream_if_it_is_whole(rest: bytes) -> None:
    end = ended("openai.chat", [WORD] if len(rest) > 5 else [WORD, STOP])
    assert end.check(rest) == rest


@pytest.mark.parametrize("rest", [DONE[:9], STOP[:30], b"da", b": pi", b"event: x\n", b"<html>"])
def test_what_is_torn_does_not_belong_to_it(rest: bytes) -> None:
    with pytest.raises(IncompleteAnswerError, match="cut"):
        ended("openai.chat", [WORD]).check(rest)
    assert ended("openai.chat", [WORD, STOP]).check(rest) == b""


def test_a_worker_that_does_not_stream_answers_with_one_json_text() -> None:
    assert ended("openai.chat", []).check(b' {"choices": []}\n') == b' {"choices": []}\n'
    with pytest.raises(IncompleteAnswerError, match="no whole JSON"):
        ended("openai.chat", []).check(b'{"choices": [')


@pytest.mark.parametrize("body", [b"", b"no", b"{", b'{"a": "b', b"{}{", b'{"a": 1,}', b"[" * 100_000])
def test_a_reply_must_be_json(body: bytes) -> None:
    with pytest.raises(IncompleteAnswerError):
        check_whole_reply(body)


def test_a_reply_that_is_json_is_whole() -> None:
    check_whole_reply(b' {"choices": [{"message": {"content": "a"}}]} \n')
