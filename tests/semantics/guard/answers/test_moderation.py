"""Answers judged by an external service, over real HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import StreamReader
from pydantic import ValidationError

from radixway.core.config import ConfigError
from radixway.core.config.guard import AnswersConfig
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.redaction import PlaceholderVault
from support.guarded_answers import (
    Recorded,
    chat_body,
    chat_stream,
    guard_of,
    guarded_body,
    guarded_stream,
    request_of,
    said_in,
)
from support.scripted_worker import scripted_worker

KEY = "sk-secret-of-the-service"


async def service(exchange):
    """Flags what holds the word `poison`."""
    flagged = "poison" in exchange.json()["input"]
    result = {
        "flagged": flagged,
        "categories": {"violence": flagged, "hate": False},
        "category_scores": {"violence": 0.9 if flagged else 0.1, "hate": 0.2},
    }
    await exchange.reply(200, json.dumps({"id": "m", "model": "x", "results": [result]}).encode())


def section_of(url, **more):
    return {"moderation": {"url": f"{url}/v1/moderations", "batch_chars": 20} | more}


async def test_a_flagged_answer_ends_before_the_batch_that_was_flagged():
    async with scripted_worker(service) as judge:
        recorder = Recorded()
        guard = guard_of(section_of(judge.url, model="omni", api_key=KEY), recorder=recorder)
        text = "This is a harmless beginning. Then there is poison in it. And more."
        whole = json.loads(await guarded_body(guard, request_of(), chat_body(text)))["choices"][0]
        got, _ = await guarded_stream(guard, request_of(), chat_stream(text))
        assert whole["message"]["content"] == "This is a harmless beginning."
        assert said_in(got) == ({"content": whole["message"]["content"]}, "content_filter")
        assert whole["finish_reason"] == "content_filter"
        asked = judge.requests[0]
        assert (asked.path, asked.json()["model"]) == ("/v1/moderations", "omni")
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        incident = recorder.incidents[0]
        assert (incident.rule, incident.action) == ("answers.moderation", "block")
        assert [(found.type, found.confidence) for found in incident.findings] == [("violence", 0.9)]


async def test_reported_and_scored_by_category():
    async with scripted_worker(service) as judge:
        recorder = Recorded()
        section = section_of(judge.url, action="report", categories={"hate": 0.2})
        body = await guarded_body(
            guard_of(section, recorder=recorder), request_of(), chat_body("All is well.")
        )
        assert body == chat_body("All is well.")
        assert [found.type for found in recorder.incidents[0].findings] == ["hate"]


async def test_the_service_is_not_told_what_was_hidden():
    vault = PlaceholderVault()
    vault.add_placeholder(PersonalDataSpan("EMAIL_ADDRESS", 0, 13, 1.0), "jo@li.example", ())
    async with scripted_worker(service) as judge:
        guard = guard_of(section_of(judge.url) | {"pii": {"action": "mask"}}, vault=vault)
        text = "I wrote to [EMAIL_ADDRESS_1] and to b@c.example today."
        body = json.loads(await guarded_body(guard, request_of(), chat_body(text)))
        assert body["choices"][0]["message"]["content"] == "I wrote to jo@li.example and to ***** today."
        told = "".join(each.json()["input"] for each in judge.requests)
        assert "jo@li" not in told
        assert "b@c" not in told
        assert "[EMAIL_ADDRESS_1]" in told


@pytest.mark.parametrize(("on_error", "finish"), [("allow", "stop"), ("block", "content_filter")])
@pytest.mark.parametrize("fault", ["status", "garbage", "death"])
async def test_a_service_that_fails_lets_answers_pass_or_ends_them(on_error, finish, fault, caplog):
    async def fail(exchange):
        if fault == "death":
            exchange.die()
        elif fault == "status":
            await exchange.reply(500, b"no " + exchange.body)
        else:
            await exchange.reply(200, b'{"results": [{"flagged": true}]}')

    async with scripted_worker(fail) as judge:
        guard = guard_of(section_of(judge.url, api_key=KEY, on_error=on_error))
        text = "Something private is said here."
        choice = json.loads(await guarded_body(guard, request_of(), chat_body(text)))["choices"][0]
        assert choice["finish_reason"] == finish
        assert choice["message"]["content"] == (text if on_error == "allow" else "")
        assert KEY not in caplog.text
        assert "private" not in caplog.text


async def test_a_verdict_in_several_pieces_is_heard_to_its_end():
    async def slowly(exchange):
        await exchange.begin_stream()
        for at, piece in enumerate(pieces):
            await exchange.chunk(piece)
            if at < len(pieces) - 1:
                await heard[at].wait()
        await exchange.end_stream()

    verdict = {"flagged": True, "categories": {"hate": True}, "category_scores": {"hate": 0.9}}
    raw = json.dumps({"results": [verdict]}).encode()
    pieces = [raw[:20], raw[20:]]
    heard = [asyncio.Event()]
    real = StreamReader.feed_data

    def fed(self, data, *more):
        result = real(self, data, *more)
        heard[0].set()  # the first piece is there, and nothing more
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamReader, "feed_data", fed)
        async with scripted_worker(slowly) as judge:
            guard = guard_of(section_of(judge.url, on_error="allow"))
            body = json.loads(await guarded_body(guard, request_of(), chat_body("Something is said.")))
            assert body["choices"][0]["finish_reason"] == "content_filter"


@pytest.mark.parametrize(
    "lie",
    [
        b'{"results": []}',
        b'{"results": [{"flagged": true, "categories": {"a": true}, "category_scores": {"a": NaN}}]}',
        b'{"results": [{"flagged": true, "categories": {}, "category_scores": {"a": 1' + b"0" * 400 + b"}}]}",
        b'{"results": "' + b"x" * 2**21 + b'"}',
        b"[" * 100_000,
    ],
)
async def test_a_service_that_says_nothing_that_means_anything_has_failed(lie):
    async def reply(exchange):
        await exchange.reply(200, lie)

    async with scripted_worker(reply) as judge:
        guard = guard_of(section_of(judge.url, on_error="block"))
        body = json.loads(await guarded_body(guard, request_of(), chat_body("Something is said.")))
        assert body["choices"][0]["message"]["content"] == ""


async def test_what_a_service_says_in_place_of_a_category_is_not_quoted():
    async def quote(exchange):
        said = exchange.json()["input"]
        result = {"flagged": True, "categories": {said: True}, "category_scores": {said: 0.9}}
        await exchange.reply(200, json.dumps({"results": [result]}).encode())

    async with scripted_worker(quote) as judge:
        recorder = Recorded()
        await guarded_body(
            guard_of(section_of(judge.url), recorder=recorder), request_of(), chat_body("Ah so.")
        )
        assert [found.type for found in recorder.incidents[0].findings] == ["other"]


async def test_a_key_may_lie_in_a_file(tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    async with scripted_worker(service) as judge:
        guard = guard_of(section_of(judge.url, api_key_file=str(tmp_path / "key")))
        await guarded_body(guard, request_of(), chat_body("All is well."))
        assert judge.requests[0].headers["authorization"] == f"Bearer {KEY}"
    with pytest.raises(ConfigError, match="api_key_file"):
        guard_of(section_of("http://127.0.0.1:1", api_key_file=str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"moderation": {"url": "ftp://x"}}, "url"),
        ({"moderation": {"api_key": "a", "api_key_file": "b"}}, "api_key"),
        ({"exfiltration": {"hosts": ["https://x/"]}}, "hosts"),
        ({"pii": {"action": "redact"}}, "action"),
        ({"hold_back": {"characters": 5}}, "characters"),
    ],
)
def test_what_cannot_be_meant_is_refused(section, message):
    with pytest.raises(ValidationError, match=message):
        AnswersConfig.model_validate(section)
