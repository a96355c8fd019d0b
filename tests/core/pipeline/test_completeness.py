"""What shows that an answer is whole, protocol by protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixway.core.pipeline import IncompleteReplyError, ReplyForm, StreamEndDetector, check_complete_reply

CHAT, COMPLETION, GENERATE, TGI = ReplyForm.CHAT, ReplyForm.COMPLETION, ReplyForm.GENERATE, ReplyForm.TGI
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
    "vllm": (CHAT, [WORD, STOP, USAGE, DONE]),
    "both marks and a ping": (CHAT, [WORD, STOP, DONE, PING]),
    "no finish reason": (CHAT, [WORD, DONE]),
    "no mark of the end": (CHAT, [WORD, STOP]),
    "no mark of the end, and usage": (CHAT, [WORD, STOP, USAGE, PING]),
    "one chunk": (COMPLETION, [WORD + STOP + DONE]),
    "on Windows": (CHAT, [WORD + STOP.replace(b"\n", b"\r\n")]),
    "the worker's error": (CHAT, [WORD, OPENAI_ERROR]),
    "sglang": (GENERATE, [generated(0, None), generated(0, "length"), DONE]),
    "sglang without mark": (GENERATE, [generated(0, None), generated(0, "abort")]),
    "tgi": (TGI, [event({"token": {}}), event({"token": {}, "generated_text": "a"})]),
    "tgi's error": (TGI, [event({"token": {}}), event({"error": "overloaded"})]),
}
CUT = {
    "words": (CHAT, [WORD, WORD]),
    "usage in every event": (CHAT, [choices((0, None), usage={"completion_tokens": 1})]),
    "an empty finish reason": (CHAT, [choices((0, ""))]),
    "what a text says": (CHAT, [event({"choices": [{"delta": {"content": "data: [DONE]"}}]})]),
    "the other protocol's end": (CHAT, [generated(0, "stop")]),
    "no error": (CHAT, [choices((0, None), error=None)]),
    "sglang": (GENERATE, [generated(0, None)]),
    "tgi": (TGI, [event({"token": {}, "generated_text": None})]),
    "pings": (CHAT, [PING, PING]),
    "nothing": (CHAT, []),
    "another shape": (CHAT, [event({"choices": [{"index": "a"}]}), event([1]), event("x")]),
}


def ended(form: ReplyForm, chunks: list[bytes], answers: int | None = 1) -> StreamEndDetector:
    end = StreamEndDetector(form, answers)
    for chunk in chunks:
        end.note(chunk)
    return end


@pytest.mark.parametrize("name", WHOLE)
def test_an_end_is_seen(name: str) -> None:
    form, chunks = WHOLE[name]
    assert ended(form, chunks).check_complete() == b""
    assert ended(form, [b"".join(chunks)]).check_complete() == b""


@pytest.mark.parametrize("name", CUT)
def test_a_stream_without_its_end_is_not_whole(name: str) -> None:
    with pytest.raises(IncompleteReplyError, match="finish reason"):
        ended(*CUT[name]).check_complete()


@pytest.mark.parametrize("answers", [2, None])
def test_of_several_answers_each_must_end(answers: int | None) -> None:
    words = [choices((0, None)), choices((1, None)), choices((0, "stop"))]
    more = [choices((1, None))] * 10
    with pytest.raises(IncompleteReplyError):
        ended(CHAT, [*words, *more], answers).check_complete()
    assert ended(CHAT, [*words, *more, choices((1, "length"))], answers).check_complete() == b""
    assert ended(CHAT, [*words, *more, DONE], answers).check_complete() == b""
    assert ended(GENERATE, [generated(1, "stop"), generated(0, "stop")], answers).check_complete() == b""


def test_an_answer_that_has_not_begun_is_missing_where_it_is_known_how_many_there_are() -> None:
    with pytest.raises(IncompleteReplyError):
        ended(COMPLETION, [choices((0, "stop"))], 2).check_complete()


def test_of_a_long_stream_only_the_last_chunks_are_kept() -> None:
    end = ended(CHAT, [WORD] * 10_000)
    assert len(end._last) < 100
    end.note(STOP)
    assert end.check_complete() == b""


@pytest.mark.parametrize("rest", [DONE.strip(), STOP.strip(), STOP.replace(b"\n", b""), b"\n", b""])
def test_what_no_blank_line_ends_belongs_to_the_stream_if_it_is_whole(rest: bytes) -> None:
    end = ended(CHAT, [WORD] if len(rest) > 5 else [WORD, STOP])
    assert end.check_complete(rest) == rest


@pytest.mark.parametrize("rest", [DONE[:9], STOP[:30], b"da", b": pi", b"event: x\n", b"<html>"])
def test_what_is_torn_does_not_belong_to_it(rest: bytes) -> None:
    with pytest.raises(IncompleteReplyError, match="cut"):
        ended(CHAT, [WORD]).check_complete(rest)
    assert ended(CHAT, [WORD, STOP]).check_complete(rest) == b""


def test_a_worker_that_does_not_stream_answers_with_one_json_text() -> None:
    assert ended(CHAT, []).check_complete(b' {"choices": []}\n') == b' {"choices": []}\n'
    with pytest.raises(IncompleteReplyError, match="no whole JSON"):
        ended(CHAT, []).check_complete(b'{"choices": [')


@pytest.mark.parametrize("body", [b"", b"no", b"{", b'{"a": "b', b"{}{", b'{"a": 1,}', b"[" * 100_000])
def test_a_reply_must_be_json(body: bytes) -> None:
    with pytest.raises(IncompleteReplyError):
        check_complete_reply(body)


def test_a_reply_that_is_json_is_whole() -> None:
    check_complete_reply(b' {"choices": [{"message": {"content": "a"}}]} \n')
