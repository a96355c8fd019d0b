"""Calls for which the embedded engine has no model, through a gateway to a worker that has the surface.

What the worker says is fixed: that the client's call reaches it whole, and its answer the client.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from support.file_worker import FILE_PATHS, FileWorker, lines
from support.ported_cases import ported
from support.running_gateway import running_gateway
from support.surface_worker import AUDIO, form_of, surface_worker

EMBEDDINGS, SPOKEN, TRANSLATED = "/v1/embeddings", "/v1/audio/transcriptions", "/v1/audio/translations"
CHAT = "/v1/chat/completions"
SPEECH, DRAWN, EDITED = "/v1/audio/speech", "/v1/images/generations", "/v1/images/edits"
VECTOR = [0.5, -0.25, 2.0]
TENANTS = {"acme": {"keys": [{"key": "acme-key"}], "rates": {"requests_per_minute": 1}}}


def chat(request: web.Request, body: bytes) -> web.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def embed(request: web.Request, body: bytes) -> web.Response:
    asked = json.loads(body)
    packed = base64.b64encode(struct.pack("<3f", *VECTOR)).decode()
    vector = packed if asked.get("encoding_format") == "base64" else VECTOR
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    data = [{"object": "embedding", "index": at, "embedding": vector} for at in range(len(texts))]
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    return web.json_response({"object": "list", "model": asked["model"], "data": data, "usage": usage})


async def transcribe(request: web.Request, body: bytes) -> web.StreamResponse:
    if b"\r\n\r\ntext\r\n" in body:
        return web.Response(text="hello there\n")
    if b'name="stream"' not in body:
        return web.json_response({"text": "hello there", "usage": {"type": "duration", "seconds": 3}})
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for told in (
        {"type": "transcript.text.delta", "delta": "hello there"},
        {"type": "transcript.text.done", "text": "hello there"},
    ):
        await response.write(b"data: %b\n\n" % json.dumps(told).encode())
    return response


def draw(request: web.Request, body: bytes) -> web.Response:
    return web.json_response({"created": 1, "data": [{"b64_json": base64.b64encode(AUDIO).decode()}]})


ANSWERS = {CHAT: chat, EMBEDDINGS: embed, SPOKEN: transcribe, TRANSLATED: transcribe, EDITED: draw}


@pytest.fixture
async def worker() -> AsyncIterator[FileWorker]:
    async with surface_worker(
        *FILE_PATHS, *ANSWERS, SPEECH, DRAWN, kind=FileWorker, answers=ANSWERS
    ) as worker:
        yield worker


@pytest.fixture
async def client(worker: FileWorker) -> AsyncIterator[openai.AsyncOpenAI]:
    async with running_gateway(worker.url) as gateway:
        async with openai.AsyncOpenAI(
            base_url=f"{gateway.url}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
        ) as client:
            yield client


@ported("openai", "embeddings.create")
@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}], ids=["base64", "float"])
async def test_embeddings(client: openai.AsyncOpenAI, form: dict[str, Any]):
    loose = client.copy(_extra_kwargs={"_strict_response_validation": False})  # it decodes base64 itself
    answer = await loose.embeddings.create(model="m", input=["hello", "there"], **form)
    assert [(each.index, each.embedding) for each in answer.data] == [(0, VECTOR), (1, VECTOR)]
    assert answer.usage.prompt_tokens == 4


@ported("openai", "embeddings.create: BadRequestError")
async def test_embeddings_of_nothing(client: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        await client.embeddings.create(model="m", input=[])
    assert refused.value.param == "input"


@ported("openai", "audio.speech.create")
async def test_speech(client: openai.AsyncOpenAI):
    answer = await client.audio.speech.create(model="m", voice="alloy", input="hello")
    assert (answer.content, answer.response.headers["content-type"]) == (AUDIO, "audio/mpeg")


@ported("openai", "audio.speech.with_streaming_response.create")
async def test_streamed_speech(client: openai.AsyncOpenAI):
    asked = {"model": "m", "voice": "alloy", "input": "hello"}
    async with client.audio.speech.with_streaming_response.create(**asked) as answer:
        assert b"".join([piece async for piece in answer.iter_bytes()]) == AUDIO


@ported("openai", "audio.transcriptions.create")
async def test_a_transcription(client: openai.AsyncOpenAI, worker: FileWorker):
    answer = await client.audio.transcriptions.create(model="m", file=("a.wav", AUDIO), prompt="a talk")
    assert answer.text == "hello there"
    form = form_of(worker.seen[-1])
    assert (form["file"], form["prompt"]) == ([AUDIO], [b"a talk"])


@ported("openai", "audio.transcriptions.create(response_format=text)")
async def test_a_transcription_as_text(client: openai.AsyncOpenAI):
    answer = await client.audio.transcriptions.create(
        model="m", file=("a.wav", AUDIO), response_format="text"
    )
    assert answer == "hello there\n"


@ported("openai", "audio.transcriptions.create(stream=True)")
async def test_a_streamed_transcription(client: openai.AsyncOpenAI):
    stream = await client.audio.transcriptions.create(model="m", file=("a.wav", AUDIO), stream=True)
    assert [event.type async for event in stream] == ["transcript.text.delta", "transcript.text.done"]


@ported("openai", "audio.translations.create")
async def test_a_translation(client: openai.AsyncOpenAI):
    assert (await client.audio.translations.create(model="m", file=("a.wav", AUDIO))).text == "hello there"


@ported("openai", "images.generate")
async def test_a_picture(client: openai.AsyncOpenAI, worker: FileWorker):
    answer = await client.images.generate(model="m", prompt="a cat", n=1, response_format="b64_json")
    assert answer.data[0].b64_json == "aGVsbG8="
    assert worker.seen[-1].json()["prompt"] == "a cat"


@ported("openai", "images.edit")
async def test_a_changed_picture(client: openai.AsyncOpenAI, worker: FileWorker):
    answer = await client.images.edit(model="m", image=("a.png", AUDIO), prompt="a cat")
    assert base64.b64decode(answer.data[0].b64_json) == AUDIO
    assert form_of(worker.seen[-1])["image"] == [AUDIO]


@ported("openai", "files.create, retrieve, content")
async def test_a_file(client: openai.AsyncOpenAI):
    made = await client.files.create(file=("requests.jsonl", lines("m")), purpose="batch")
    assert (made.bytes, made.purpose) == (len(lines("m")), "batch")
    assert await client.files.retrieve(made.id) == made
    assert (await client.files.content(made.id)).content == lines("m")


@ported("openai", "files.list")
async def test_files_are_listed(client: openai.AsyncOpenAI):
    made = [await client.files.create(file=("a.jsonl", lines("m")), purpose="batch") for _ in range(3)]
    assert [file.id async for file in client.files.list(limit=1)] == [file.id for file in made[::-1]]


@ported("openai", "files.delete")
async def test_a_file_is_deleted(client: openai.AsyncOpenAI):
    made = await client.files.create(file=("a.jsonl", lines("m")), purpose="batch")
    assert (await client.files.delete(made.id)).deleted is True
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(made.id)


@ported("openai", "batches.create, retrieve, list, cancel")
async def test_a_batch(client: openai.AsyncOpenAI):
    file = await client.files.create(file=("a.jsonl", lines("m")), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    assert await client.batches.retrieve(batch.id) == batch
    assert [each.id async for each in client.batches.list()] == [batch.id]
    assert (await client.files.content(batch.output_file_id)).text == '{"custom_id": "1"}\n'
    assert (await client.batches.cancel(batch.id)).status == "cancelling"


@pytest.fixture
async def limited(worker: FileWorker) -> AsyncIterator[str]:
    """The URL of a gateway whose one tenant may ask once a minute."""
    async with running_gateway(worker.url, tenants=TENANTS) as gateway:
        yield gateway.url


@ported("openai", "AuthenticationError, RateLimitError")
async def test_keys_and_limits_for_openai(limited: str):
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    client = openai.AsyncOpenAI(base_url=f"{limited}/v1", api_key="acme-key", max_retries=0)
    async with client:
        with pytest.raises(openai.AuthenticationError) as unknown:
            await client.with_options(api_key="none").chat.completions.create(**asked)
        assert unknown.value.code == "invalid_api_key"
        assert (await client.chat.completions.create(**asked)).choices[0].message.content == "hi"
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(**asked)
    assert int(refused.value.response.headers["retry-after"]) > 0


@ported("anthropic", "AuthenticationError, RateLimitError")
async def test_keys_and_limits_for_anthropic(limited: str):
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    async with anthropic.AsyncAnthropic(base_url=limited, api_key="acme-key", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError) as unknown:
            await client.with_options(api_key="none").messages.create(**asked)
        assert unknown.value.body["error"]["type"] == "authentication_error"
        assert (await client.messages.create(**asked)).content[0].text == "hi"
        with pytest.raises(anthropic.RateLimitError) as refused:
            await client.messages.create(**asked)
    assert refused.value.body["error"]["type"] == "rate_limit_error"
    assert int(refused.value.response.headers["retry-after"]) > 0
