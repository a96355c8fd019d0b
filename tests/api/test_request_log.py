"""The line that a request leaves in the log."""

import logging

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import answer_ok, scripted_worker

SECRET = "sesame-open-4711"


@pytest.fixture
def lines():
    """What `radixway.requests` was told, as fields."""
    told = []

    class Listening(logging.Handler):
        def emit(self, record):
            told.append((record.levelname, record.getMessage(), record.radixway_fields))

    log, handler = logging.getLogger("radixway.requests"), Listening()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield told
    log.removeHandler(handler)
    log.setLevel(level)


async def breaks_off(exchange):
    exchange.die()


async def counting(exchange):
    usage = b'{"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}'
    await exchange.reply(200, b'{"choices": [], "usage": %b}' % usage)


async def test_each_request_leaves_one_line_without_a_word_of_it(lines):
    async with scripted_worker(counting) as worker, running_gateway(worker.url) as gateway:
        headers = {"x-request-id": "mine"}
        await gateway.chat(messages=[{"role": "user", "content": SECRET}])
        body = {"model": SECRET, "messages": [{"role": "user", "content": SECRET}]}
        await gateway.post("/v1/chat/completions", body, headers=headers)
        worker.behaviour = breaks_off
        status, _, _ = await gateway.chat()
        assert status == 502
    answered, refused, broken = lines
    level, event, fields = answered
    assert (level, event) == ("INFO", "request")
    assert fields["status"] == 200 and fields["model"] == "m" and fields["tenant"] == "default"
    assert fields["worker"] == worker.url.removeprefix("http://") and fields["surface"] == "openai.chat"
    assert (fields["prompt_tokens"], fields["completion_tokens"], fields["cached_tokens"]) == (7, 2, 5)
    assert 0 < fields["first_byte_ms"] <= fields["total_ms"]
    assert refused[2]["request"] == "mine" and refused[2]["error"] == "model_not_found"
    assert broken[0] == "WARNING" and broken[2]["attempts"] == 3 and broken[2]["status"] == 502
    assert SECRET not in str(lines)


async def test_ids_that_clients_make_up_end_no_line(lines):
    async with scripted_worker(answer_ok) as worker, running_gateway(worker.url) as gateway:
        for given in ("a b", "x" * 129, "tab\there", "\u00e9"):
            _, _, headers = await gateway.post(
                "/v1/chat/completions",
                {"model": "m", "messages": []},
                headers={"x-request-id": given},
            )
            assert headers["x-request-id"] == lines[-1][2]["request"]
            assert headers["x-request-id"].isprintable() and len(headers["x-request-id"]) <= 128
