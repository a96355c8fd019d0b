"""However an answer comes, the client gets the same, no later than it must."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radixway.core.config.guard import AnswersConfig
from radixway.core.pipeline import PersonalDataSpan, Reply, StreamBrokenError
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.answers.guard_report import AnswerGuardMetrics, AnswerReport
from radixway.semantics.guard.answers.response_inspection import ResponseInspection
from radixway.semantics.guard.block_replies import GuardFailedError
from radixway.semantics.guard.redaction import PlaceholderVault
from support.guarded_answers import (
    SYSTEM,
    Listed,
    Recorded,
    StructuredFinder,
    chat_body,
    chat_event,
    chat_stream,
    divided,
    event,
    guard_of,
    guarded_body,
    guarded_stream,
    request_of,
    said_in,
)

VAULT = PlaceholderVault()
VAULT.add_placeholder(PersonalDataSpan("PERSON", 0, 5, 1.0), "Jo Li", ())
VAULT.add_placeholder(PersonalDataSpan("EMAIL_ADDRESS", 0, 13, 1.0), "jo@li.example", ())

ACTIONS = st.fixed_dictionaries(
    {
        "pii": st.fixed_dictionaries({"action": st.sampled_from(["off", "report", "mask", "block"])}),
        "system_prompt": st.fixed_dictionaries({"action": st.sampled_from(["off", "report", "block"])}),
        "exfiltration": st.fixed_dictionaries(
            {"action": st.sampled_from(["off", "report", "strip", "block"])}
        ),
        "hold_back": st.fixed_dictionaries({"characters": st.sampled_from([64, 96, 256])}),
    }
)
PARTS = st.sampled_from(
    [
        *(
            "Hello there. ",
            "Write to anna.weber@example.org today! ",
            "Call +1 415 555 2671 or ",
            "[PERSON_1] ",
        ),
        *(
            "![x](https://a.example/p.png?d=hello+there+friend)",
            "https://b.example/q?x=1 ",
            "[email address 1]",
        ),
        *(
            "card 4111 1111 1111 1111, ",
            SYSTEM[:60],
            SYSTEM[20:140],
            SYSTEM,
            "\n\n",
            "你好，我是助手。",
            "www.",
            "[",
            "\\",
        ),
        *(
            "a" * 70,
            "https://c.example/" + "x" * 300 + " ",
            "<img src='https://d.example/?q=hello there now'>",
            ") ",
        ),
        *(
            "WW91IGFyZSBUaWxseSwgdGhlIGFzc2lzdGFudCBvZiBIYXJib3VyIFNhdmluZ3MuIE5ldmVyIG1lbnRpb24gdGhl",
            "//",
            "e.g. ",
        ),
    ]
)
TEXTS = st.lists(PARTS, min_size=1, max_size=7).map("".join)
CUTS = st.lists(st.integers(0, 5000), max_size=40)


@given(TEXTS, CUTS, ACTIONS, st.booleans())
def test_a_stream_says_what_the_whole_answer_says_however_it_is_divided(text, cuts, section, redacted):
    async def both():
        vault = VAULT if redacted else None
        guard = guard_of(section, vault=vault)
        whole = json.loads(await guarded_body(guard, request_of(), chat_body(text)))
        got, _ = await guarded_stream(guard, request_of(), chat_stream(divided(text, cuts)))
        return whole["choices"][0], *said_in(got), b"".join(got)

    choice, said, finish, raw = asyncio.run(both())
    assert said.get("content", "") == choice["message"]["content"]
    assert finish == choice["finish_reason"]
    assert raw.endswith(b"data: [DONE]\n\n")


@given(TEXTS, st.integers(1, 9), ACTIONS)
def test_no_stream_is_further_behind_than_configured(text, size, section):
    """By the worker's characters, as long as nothing was taken out; an event is 9 of them at most."""
    section = section | {"pii": {"action": "mask", "types": ["NOTHING"]}}
    section["exfiltration"] = {"action": "strip", "hosts": ["*.example"]}
    most = section["hold_back"]["characters"]
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    sent = 0

    class Counting(Listed):
        async def __anext__(self):
            nonlocal sent
            chunk = await super().__anext__()
            sent += len(said_in([chunk])[0].get("content", ""))
            return chunk

    async def furthest():
        guard = guard_of(section)
        reply = await guard.guard_reply(
            request_of(), Reply(200, [], "w", chunks=Counting(chat_stream(pieces)))
        )
        shown, behind = "", 0
        async for chunk in reply.chunks:
            shown += said_in([chunk])[0].get("content", "")
            behind = max(behind, sent - len(shown))
        return behind, shown

    behind, shown = asyncio.run(furthest())
    assume(shown == text)
    assert behind <= most + size + 1


async def test_what_needs_no_change_passes_as_the_bytes_that_came():
    chunks = [chat_event(role="assistant", content=""), b'data: {"odd":  1e5}\n\n', b": a comment\n\n"]
    chunks += chat_stream(["All ", "is ", "well. ", "Bye."])
    for action in ("report", "mask"):
        guard = guard_of({"pii": {"action": action}, "system_prompt": {"action": "block"}})
        got, _ = await guarded_stream(guard, request_of(), chunks)
        assert b"".join(got) == b"".join(chunks)


async def test_with_nothing_on_the_stream_itself_is_passed():
    inner = Listed([])
    reply = await guard_of({}).guard_reply(request_of(), Reply(200, [], "w", chunks=inner))
    assert reply.chunks is inner


async def test_reports_hold_nothing_back():
    section = {name: {"action": "report"} for name in ("pii", "system_prompt", "exfiltration")}
    chunks = chat_stream(["mail ann", "a@x", ".org ", "and ", SYSTEM])
    got, _ = await guarded_stream(guard_of(section), request_of(), chunks)
    assert got == chunks


async def test_placeholders_are_restored_in_every_split():
    text = "Dear [PERSON_1], [email address 1] is yours."
    for cut in range(1, len(text)):
        chunks = chat_stream([text[:cut], text[cut:]])
        got, _ = await guarded_stream(guard_of({}, vault=VAULT), request_of(), chunks)
        assert said_in(got)[0]["content"] == "Dear Jo Li, jo@li.example is yours."


async def test_what_was_restored_is_the_clients_own_and_not_masked():
    guard = guard_of({"pii": {"action": "mask"}}, vault=VAULT)
    body = json.loads(await guarded_body(guard, request_of(), chat_body("[EMAIL_ADDRESS_1], b@c.org")))
    assert body["choices"][0]["message"]["content"] == "jo@li.example, *****"


async def test_a_link_with_what_was_restored_carries_it_away():
    guard = guard_of({"exfiltration": {"action": "strip"}}, vault=VAULT)
    text = "![x](https://e.example/[PERSON_1].png)"
    body = json.loads(await guarded_body(guard, request_of(), chat_body(text)))
    assert body["choices"][0]["message"]["content"] == "![x](#link-removed)"


async def test_a_blocked_stream_ends_with_content_filter_and_leaves_its_worker():
    recorder = Recorded()
    guard = guard_of({"pii": {"action": "block"}}, recorder=recorder)
    request = request_of()
    chunks = chat_stream(["It is ", "anna@", "example.org", ". More", " and more"])
    inner = Listed(chunks)
    got, _ = await guarded_stream(guard, request, inner)
    assert said_in(got) == ({"content": "It is "}, "content_filter")
    assert inner.closed
    assert request.cache.bypass_reason == "answers_pii"
    (incident,) = recorder.incidents
    assert (incident.rule, incident.action) == ("answers.pii", "block")
    assert [(each.type, each.where, each.begin, each.end) for each in incident.findings] == [
        ("EMAIL_ADDRESS", "choices[0].content", 6, 22)
    ]
    assert "anna" not in json.dumps(request.journal.explain())


async def test_thinking_and_arguments_are_guarded_each_as_a_text_of_its_own():
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "send", "arguments": ""}}
    pieces = ['{"to": "anna@ex', 'ample.org", "n": 4111', "111111111111}"]
    chunks = [
        chat_event(reasoning_content="Her mail: anna@"),
        chat_event(reasoning_content="example.org."),
        chat_event(content="Sent to bob@example"),
        chat_event(content=".org"),
        chat_event(tool_calls=[call]),
        *(chat_event(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in pieces),
        chat_event(finish="tool_calls"),
        b"data: [DONE]\n\n",
    ]
    got, _ = await guarded_stream(guard_of({"pii": {"action": "mask"}}), request_of(), chunks)
    said, finish = said_in(got)
    assert said == {"reasoning_content": "Her mail: *****.", "content": "Sent to *****"}
    assert finish == "tool_calls"
    lines = [json.loads(line[6:]) for line in b"".join(got).splitlines() if line.startswith(b"data: {")]
    calls = [c for line in lines for c in line["choices"][0]["delta"].get("tool_calls", ())]
    assert calls[0] == call
    assert json.loads("".join(each["function"]["arguments"] for each in calls)) == {"to": "*****", "n": 0}


async def test_tokens_and_logprobs_of_what_was_changed_are_left_out():
    def scored(text):
        choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [{"token": text}]}}
        return event({"choices": [choice | {"token_ids": [7], "finish_reason": None}]})

    chunks = [*map(scored, ["Hi. ", "anna@", "x.org", " now. "]), chat_event(finish="stop")]
    got, _ = await guarded_stream(guard_of({"pii": {"action": "mask"}}), request_of(), chunks)
    lines = [json.loads(line[6:])["choices"][0] for line in b"".join(got).splitlines() if line]
    assert [line.get("token_ids") for line in lines] == [[7], None, None, [7], None]
    assert b"anna" not in b"".join(got)


async def test_a_long_event_is_divided_rather_than_held():
    text = "word " * 100 + "anna@example.org"
    inner = Listed([chat_event(role="assistant", content=text, finish=None)])
    guard = guard_of({"pii": {"action": "mask"}, "hold_back": {"characters": 64}})
    reply = await guard.guard_reply(request_of(), Reply(200, [], "w", chunks=inner))
    first = await anext(reply.chunks)
    assert len(said_in([first])[0]["content"]) >= len(text) - 64 - 5
    rest = [chunk async for chunk in reply.chunks]
    assert said_in([first, *rest])[0]["content"] == "word " * 100 + "*****"


async def test_a_worker_that_breaks_off_leaves_nothing_behind():
    class Broken(Listed):
        async def __anext__(self):
            try:
                return await super().__anext__()
            except StopAsyncIteration:
                raise StreamBrokenError("w", "gone") from None

    chunks = Broken([chat_event(content="held until its sentence ends")])
    guard = guard_of({"pii": {"action": "mask"}})
    reply = await guard.guard_reply(request_of(), Reply(200, [], "w", chunks=chunks))
    got = []
    with pytest.raises(StreamBrokenError):
        async for chunk in reply.chunks:
            got.append(chunk)
    assert said_in(got)[0]["content"] == "held until its sentence ends"


@pytest.mark.parametrize("repeats", [True, False])
async def test_streams_of_generate_are_guarded_whether_they_repeat_or_not(repeats):
    pieces = ["Hi. ", "Ask an", "na@x.or", "g today", ". Bye."]
    chunks = []
    for at in range(len(pieces)):
        finish = {"type": "stop"} if at == len(pieces) - 1 else None
        text, ids = ("".join(pieces[: at + 1]), list(range(at + 1))) if repeats else (pieces[at], [at])
        meta = {"id": "g", "finish_reason": finish, "completion_tokens": at + 1}
        chunks.append(event({"text": text, "output_ids": ids, "meta_info": meta}))
    chunks.append(b"data: [DONE]\n\n")
    got, _ = await guarded_stream(guard_of({"pii": {"action": "mask"}}), request_of("generate"), chunks)
    answers = [json.loads(line[6:]) for line in b"".join(got).splitlines() if line.startswith(b"data: {")]
    text = answers[-1]["text"] if repeats else "".join(answer["text"] for answer in answers)
    assert text == "Hi. Ask ***** today. Bye."
    assert got[0].startswith(chunks[0])
    assert answers[-1]["meta_info"]["finish_reason"] == {"type": "stop"}
    assert ("output_ids" in answers[-1]) is not repeats


async def test_generate_ends_with_content_filter_too():
    meta = {"id": "g", "finish_reason": None, "completion_tokens": 2}
    chunks = [
        event({"text": "It is anna@", "output_ids": [1, 2], "meta_info": meta}),
        event(
            {
                "text": "It is anna@x.org. ",
                "output_ids": [1, 2, 3],
                "meta_info": meta | {"completion_tokens": 3},
            }
        ),
        event(
            {
                "text": "It is anna@x.org. So",
                "output_ids": [1, 2, 3, 4],
                "meta_info": meta | {"completion_tokens": 4},
            }
        ),
    ]
    got, _ = await guarded_stream(guard_of({"pii": {"action": "block"}}), request_of("generate"), chunks)
    last = json.loads(b"".join(got).splitlines()[-4][6:])
    assert (last["text"], last["meta_info"]["finish_reason"]) == ("It is ", {"type": "content_filter"})
    assert "output_ids" not in last


@given(
    st.lists(
        st.sampled_from(
            [
                *("Hello there. ", "my mail is ", "anna.weber@example.org", " and ", "then, ", "Bye! ", "\n"),
                *("4111 1111 1111 1111", "+1 415 555 2671", "https://a.example/?d=hello+there+friend "),
            ]
        ),
        min_size=1,
        max_size=8,
    ).map(" ".join),
    CUTS,
)
def test_whoever_is_hurried_still_lets_nothing_structured_slip(text, cuts):
    section = {"pii": {"action": "mask"}, "exfiltration": {"action": "strip"}}
    section = AnswersConfig.model_validate(section)

    async def hurried():
        request = request_of()
        report = AnswerReport(request, AnswerGuardMetrics(MetricsRegistry()), None, section.on_error_of)
        watched = ResponseInspection(section, request, StructuredFinder(), report).watch_text("answer")
        for piece in divided(text, cuts):
            await watched.append_text(piece)
            await watched.decide_overdue()
        await watched.append_text("", last=True)
        return "".join(piece.text for piece in watched.take_until(len(text)))

    said = asyncio.run(hurried())
    for private in ("anna.weber", "1111 1111", "555 2671", "a.example"):
        assert private not in said


async def test_choices_are_guarded_each_by_itself_and_one_that_is_blocked_ends_all():
    section = {"pii": {"action": "mask"}}
    chunks = [
        chat_event(index=0, content="I am anna@x"),
        chat_event(index=1, content="I am not. "),
        chat_event(index=0, content=".org now. "),
        chat_event(index=1, content="Really. ", finish="stop"),
        chat_event(index=0, finish="stop"),
        b"data: [DONE]\n\n",
    ]
    got, _ = await guarded_stream(guard_of(section), request_of(), chunks)
    texts = {0: "", 1: ""}
    for line in b"".join(got).splitlines():
        if line.startswith(b"data: {"):
            (choice,) = json.loads(line[6:])["choices"]
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == {0: "I am ***** now. ", 1: "I am not. Really. "}
    got, inner = await guarded_stream(guard_of({"pii": {"action": "block"}}), request_of(), chunks)
    ends = [json.loads(line[6:])["choices"][0] for line in b"".join(got).splitlines()[:-2] if line]
    assert [(end["index"], end["finish_reason"]) for end in ends if end["finish_reason"]] == [
        (0, "content_filter"),
        (1, "content_filter"),
    ]
    assert inner.closed


async def test_half_a_surrogate_pair_hides_nothing():
    """Workers that write JSON in Python send such; strict readers refuse all of it."""
    body = b'{"choices":[{"index":0,"message":{"content":"\\ud83d a@b.org"},"finish_reason":"stop"}]}'
    got = json.loads(await guarded_body(guard_of({"pii": {"action": "mask"}}), request_of(), body))
    assert got["choices"][0]["message"]["content"] == "\ufffd *****"
    chunks = [b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d a@b.org"}}]}\n\n']
    streamed, _ = await guarded_stream(guard_of({"pii": {"action": "mask"}}), request_of(), chunks)
    assert b"a@b.org" not in b"".join(streamed)


def with_returns(events):
    return [b"".join(events).replace(b"\n", b"\r")]


def one_event(events):
    """Each a line of data of the same event."""
    return [b"\n".join(each.strip() for each in events) + b"\n\n"]


def one_line(events):
    return [b"data: " + b"".join(each.removeprefix(b"data: ").strip() for each in events) + b"\n\n"]


def with_a_mark(events):
    return [b"\xef\xbb\xbf" + b"".join(events[1:])]


def with_half_a_character(events):
    return [each.replace(b"Bye", b"Bye \xc3") for each in events]


def with_every_line_end(events):
    ends = (b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\n\r")
    return [b"".join(each.strip() + ends[at % len(ends)] for at, each in enumerate(events)) + b"\n\n"]


@pytest.mark.parametrize(
    "malformed",
    [with_returns, one_event, one_line, with_a_mark, with_half_a_character, with_every_line_end],
)
@pytest.mark.parametrize("on_error", ["allow", "block"])
async def test_streams_that_are_written_badly_are_read_all_the_same(malformed, on_error):
    chunks = malformed(chat_stream(["Ask a", "@b.org ", "now. Bye"]))
    section = {"pii": {"action": "mask"}, "on_error": on_error}
    got, _ = await guarded_stream(guard_of(section), request_of(), chunks)
    said, finish = said_in(got)
    assert said["content"].startswith("Ask ***** now. Bye") and finish == "stop"
    assert b"b.org" not in b"".join(got) and b"".join(got).count(b"[DONE]") == 1


async def test_a_stream_that_is_written_badly_can_be_blocked():
    chunks = one_event(chat_stream(["Ask a@b.org now. ", "Bye"]))
    got, inner = await guarded_stream(guard_of({"pii": {"action": "block"}}), request_of(), chunks)
    assert said_in(got) == ({"content": "Ask "}, "content_filter") and inner.closed


@pytest.mark.parametrize("rest", [b"and a@b.org", b'{"choices": [', b"[DONE"])
async def test_what_is_no_json_behind_json_cannot_be_read(rest):
    chunks = [chat_event(content="Hello").strip() + rest + b"\n\n"]
    with pytest.raises(GuardFailedError):
        await guarded_stream(guard_of({"pii": {"action": "mask"}, "on_error": "block"}), request_of(), chunks)


@pytest.mark.parametrize("body", [b"no JSON, but a@b.org", b'{"choices": [{"message": {"content": "a@b.org"'])
async def test_an_answer_that_nobody_can_read_passes_or_ends_as_configured(body):
    section = {"pii": {"action": "mask"}}
    assert await guarded_body(guard_of(section), request_of(), body) == body
    strict = guard_of(section | {"on_error": "block"})
    with pytest.raises(GuardFailedError):
        await guarded_body(strict, request_of(), body)
    with pytest.raises(GuardFailedError):
        await guarded_stream(strict, request_of(), [b'data: {"choices": [{"delta": \n\n'])


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"[]",
            b"5",
            b'{"choices":[5,{"message":7}]}',
            b'{"choices":{"a":1}}',
            b'{"error":{"message":"x"}}',
        ),
        b'{"choices":[{"message":{"content":5,"tool_calls":[5,{"function":"x"},{"function":{"arguments":7}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":null}],"content":null}}]}',
    ],
)
async def test_shapes_that_nobody_expects_pass_as_they_are(body):
    guard = guard_of({"pii": {"action": "block"}, "system_prompt": {"action": "block"}})
    assert await guarded_body(guard, request_of(), body) == body
    event = b"data: " + body + b"\n\n"
    got, _ = await guarded_stream(guard, request_of(), [event, b"data: [DONE]\n\n"])
    assert got[0] == event


@pytest.mark.parametrize(
    "said",
    [
        {"audio": {"id": "a", "transcript": "Write to x@secret.org."}},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Write to x@secret.org."}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": {"to": "x@secret.org"}}}]},
        {"function_call": {"name": "f", "arguments": {"to": "x@secret.org"}}},
    ],
)
async def test_what_workers_say_in_ways_of_their_own_is_read_too(said):
    guard = guard_of({"pii": {"action": "mask"}})
    body = await guarded_body(guard, request_of(), chat_body(None, **said))
    assert b"secret" not in body and b"*****" in body
    got, _ = await guarded_stream(guard, request_of(), [chat_event(**said), chat_event(finish="stop")])
    assert b"secret" not in b"".join(got) and b"*****" in b"".join(got)
