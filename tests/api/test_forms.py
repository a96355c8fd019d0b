"""Recordings and pictures travel as forms, byte for byte."""

from __future__ import annotations

import json

import aiohttp
import openai
import pytest
from aiohttp import web

from support.guarded import EMAIL, guarded
from support.running_gateway import running_gateway
from support.surface_worker import AUDIO, SurfaceWorker, form_of, surface_worker

SPOKEN = "/v1/audio/transcriptions"
BODY = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    + AUDIO
    + b'\r\n--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm'
    + b'\r\n--x\r\nContent-Disposition: form-data; name="odd"\r\n\r\n 1e-5 \r\n--x--\r\n'
)
KIND = {"content-type": "multipart/form-data; boundary=x"}


def transcribe(request: web.Request, body: bytes) -> web.Response:
    """As vLLM and OpenAI answer, by the form's own wish."""
    if b"\r\n\r\ntext\r\n" in body:
        return web.Response(text="hello there\n")
    return web.json_response({"text": "hello there", "usage": {"type": "duration", "seconds": 3}})


async def say_events(request: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for word in ("hello", " there"):
        await response.write(
            b"data: " + json.dumps({"type": "transcript.text.delta", "delta": word}).encode()
        )
        await response.write(b"\n\n")
    await response.write(b'data: {"type": "transcript.text.done", "text": "hello there"}\n\n')
    return response


def sdk(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("path", [SPOKEN, "/v1/audio/translations"])
async def test_a_form_reaches_the_worker_byte_for_byte(path: str) -> None:
    async with surface_worker(path, answers={path: transcribe}) as worker:
        async with running_gateway(worker.url) as gateway:
            status, told, headers = await gateway.post(f"{path}?a=b", BODY, headers=KIND)
            assert (status, told["text"]) == (200, "hello there")
            (call,) = worker.seen
            assert (call.target, call.body) == (f"{path}?a=b", BODY)
            assert call.headers["content-type"] == KIND["content-type"]
            _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
            assert journal["row"]["surface"].startswith("openai.trans")


async def test_of_an_alias_only_the_models_name_is_changed() -> None:
    async with surface_worker(SPOKEN, answers={SPOKEN: transcribe}) as worker:
        async with running_gateway(worker.url) as gateway:
            body = BODY.replace(b"\r\n\r\nm\r\n", b"\r\n\r\ndefault\r\n")
            assert (await gateway.post(SPOKEN, body, headers=KIND))[0] == 200
            assert worker.seen[0].body == BODY


async def test_a_failed_worker_is_left_for_another_with_the_same_form() -> None:
    async with surface_worker(SPOKEN, failures=1) as one, surface_worker(SPOKEN, failures=1) as two:
        async with running_gateway(one.url, two.url) as gateway:
            assert (await gateway.post(SPOKEN, BODY, headers=KIND))[0] == 200
            assert {call.body for call in one.seen + two.seen} == {BODY}
            assert len(one.seen) + len(two.seen) == 3


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ({"model": "m"}, "file"),
        ({"file": "no file", "model": "m"}, "file"),
        ({"file": b"a", "temperature": "hot"}, "temperature"),
        ({"file": b"a", "model": "m" * 300}, "model"),
        ({"file": b"a", "priority": "soon"}, "priority"),
    ],
)
async def test_a_bad_field_of_a_form_is_named(parts: dict, param: str) -> None:
    async with surface_worker(SPOKEN) as worker, running_gateway(worker.url) as gateway:
        data = aiohttp.FormData(default_to_multipart=True)
        for name, value in parts.items():
            data.add_field(name, value, filename="a.wav" if isinstance(value, bytes) else None)
        async with gateway.client.post(gateway.url + SPOKEN, data=data) as answer:
            assert (answer.status, (await answer.json())["error"]["param"]) == (400, param)
        assert worker.seen == []


@pytest.mark.parametrize("body", [b"", b"{}", BODY[:-9]])
async def test_what_is_no_form_is_refused(body: bytes) -> None:
    async with surface_worker(SPOKEN) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(SPOKEN, body, headers=KIND)
        assert (status, told["error"]["code"], worker.seen) == (400, "invalid_form", [])


async def test_the_guard_reads_the_texts_of_a_form(monkeypatch) -> None:
    blocks = {"pii": {"action": "block"}}
    async with surface_worker(SPOKEN, answers={SPOKEN: transcribe}) as worker:
        async with guarded(monkeypatch, worker.url, guard=blocks) as gateway:
            asked = BODY.replace(
                b'name="odd"\r\n\r\n 1e-5 ', b'name="prompt"\r\n\r\nwrite to ' + EMAIL.encode() + b""
            )
            status, told, _ = await gateway.post(SPOKEN, asked, headers=KIND)
            assert (status, worker.seen) == (403, []), told
            assert (await gateway.post(SPOKEN, BODY, headers=KIND))[0] == 200


async def test_the_openai_client_speaks_hears_and_draws() -> None:
    paths = (
        "/v1/audio/speech",
        SPOKEN,
        "/v1/audio/translations",
        "/v1/images/generations",
        "/v1/images/edits",
    )
    answers = {SPOKEN: transcribe, "/v1/audio/translations": transcribe}
    async with surface_worker(*paths, answers=answers) as worker, running_gateway(worker.url) as gateway:
        client = sdk(gateway.url)
        spoken = await client.audio.speech.create(model="m", voice="alloy", input="hello")
        assert spoken.content == AUDIO
        heard = await client.audio.transcriptions.create(model="m", file=("a.wav", AUDIO), prompt="names")
        assert heard.text == "hello there"
        assert form_of(worker.seen[-1]) == {"file": [AUDIO], "model": [b"m"], "prompt": [b"names"]}
        text = await client.audio.transcriptions.create(
            model="m", file=("a.wav", AUDIO), response_format="text"
        )
        assert text == "hello there\n"
        assert (
            await client.audio.translations.create(model="m", file=("a.wav", AUDIO))
        ).text == "hello there"
        drawn = await client.images.generate(model="m", prompt="a cat", response_format="b64_json")
        assert drawn.data is not None and drawn.data[0].b64_json == "aGVsbG8="
        await client.images.edit(model="m", image=("a.png", AUDIO), prompt="a dog")
        assert form_of(worker.seen[-1])["prompt"] == [b"a dog"]
        with pytest.raises(openai.NotFoundError):
            await client.audio.speech.create(model="unknown", voice="alloy", input="hello")


async def test_the_openai_client_hears_as_it_is_said() -> None:
    async with surface_worker(SPOKEN, answers={SPOKEN: say_events}) as worker:
        async with running_gateway(worker.url) as gateway:
            events = await sdk(gateway.url).audio.transcriptions.create(
                model="m", file=("a.wav", AUDIO), stream=True
            )
            assert [event.type async for event in events] == [
                "transcript.text.delta",
                "transcript.text.delta",
                "transcript.text.done",
            ]
            assert isinstance(worker, SurfaceWorker)
