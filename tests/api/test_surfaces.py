"""Every surface that a worker has is passed through, byte for byte, to a worker that has it."""

from __future__ import annotations

import json

import pytest
from yarl import URL

from support.running_gateway import running_gateway
from support.surface_worker import AUDIO, surface_worker

SURFACES = {
    "/pooling": {"input": ["one", "two"], "odd": 1e-5},
    "/classify": {"input": "one", "truncate_prompt_tokens": 5},
    "/v1/classify": {"input": "one"},
    "/encode": {"text": "one"},
    "/v1/audio/speech": {"input": "one", "voice": "alloy"},
    "/v1/images/generations": {"prompt": "one", "n": 2},
}


@pytest.mark.parametrize("path", SURFACES)
async def test_a_body_reaches_the_worker_byte_for_byte_with_its_query(path: str) -> None:
    raw = json.dumps({"model": "m"} | SURFACES[path], indent=3).encode()
    async with surface_worker(path) as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(
            URL(f"{gateway.url}{path}?a=%2Fb&c", encoded=True), data=raw
        ) as answer:
            assert answer.status == 200
            given = await answer.read()
            assert answer.headers["x-radixway-worker"] in worker.url
        assert [(call.target, call.body) for call in worker.seen] == [(f"{path}?a=%2Fb&c", raw)]
        assert given == AUDIO if path.endswith("speech") else json.loads(given)
        assert worker.described == 0  # one worker is no choice


@pytest.mark.parametrize("path", SURFACES)
async def test_of_several_workers_the_one_that_offers_it_is_asked(path: str) -> None:
    body = {"model": "m"} | SURFACES[path]
    async with surface_worker("/v1/chat/completions") as without, surface_worker(path) as having:
        async with running_gateway(without.url, having.url) as gateway:
            for _ in range(4):
                async with gateway.client.post(gateway.url + path, json=body) as answer:
                    assert answer.status == 200
            assert (len(without.seen), len(having.seen)) == (0, 4)
            assert (without.described, having.described) == (1, 1)


async def test_a_worker_that_does_not_say_what_it_offers_is_tried_and_its_404_is_passed_on() -> None:
    async with surface_worker(describes=False) as one, surface_worker(describes=False) as two:
        async with running_gateway(one.url, two.url) as gateway:
            status, told, _ = await gateway.post("/pooling", {"model": "m", "input": "a"})
            assert (status, told) == (404, {"detail": "Not Found"})
            assert len(one.seen) + len(two.seen) == 1


async def test_a_worker_that_comes_back_is_asked_again_what_it_offers() -> None:
    async with surface_worker("/pooling") as first, surface_worker("/classify") as second:
        async with running_gateway(first.url, second.url) as gateway:
            body = {"model": "m", "input": "a"}
            assert (await gateway.post("/pooling", body))[0] == 200
            first.offered, second.offered = second.offered, first.offered
            for worker in (first, second):
                assert (await gateway.post("/drain_worker", {"url": worker.url}))[0] == 200
                assert (await gateway.post("/add_worker", {"url": worker.url}))[0] == 200
            assert (await gateway.post("/pooling", body))[0] == 200
            assert [call.target for call in second.seen] == ["/pooling"]


async def test_a_busy_worker_is_left_for_another_that_offers_it() -> None:
    async with surface_worker("/pooling") as one, surface_worker("/pooling") as two:
        async with surface_worker("/v1/completions") as other:
            async with running_gateway(one.url, two.url, other.url) as gateway:
                one.failures = two.failures = 1
                assert (await gateway.post("/pooling", {"model": "m", "input": "a"}))[0] == 200
                assert len(one.seen) + len(two.seen) == 3 and other.seen == []


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/pooling", {}, "input"),
        ("/pooling", {"input": []}, "input"),
        ("/classify", {"input": 5}, "input"),
        ("/encode", {"text": []}, "text"),
        ("/v1/audio/speech", {}, "input"),
        ("/v1/audio/speech", {"input": "a", "speed": 0}, "speed"),
        ("/v1/audio/speech", {"input": "a", "stream_format": "smoke"}, "stream_format"),
        ("/v1/images/generations", {"n": 2}, "prompt"),
        ("/v1/images/generations", {"prompt": "a", "n": 0}, "n"),
    ],
)
async def test_a_bad_body_is_refused_by_the_field(path: str, body: dict, param: str) -> None:
    async with surface_worker(path) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(path, body)
        assert (status, told["error"]["param"], worker.seen) == (400, param, [])


async def test_each_is_journalled_and_counted_as_what_it_is() -> None:
    async with surface_worker("/pooling") as worker, running_gateway(worker.url) as gateway:
        _, _, headers = await gateway.post("/pooling", {"model": "m", "input": "a"})
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
        assert journal["row"]["surface"] == "pooling"
        async with gateway.client.get(gateway.url + "/metrics/prometheus") as answer:
            assert 'surface="pooling"' in await answer.text()
