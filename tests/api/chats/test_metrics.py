"""`inference_*` in `/metrics`, and the log, after answers that ended in several ways."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from radixway.chat.answer_metrics import OTHER, AnswerMetrics
from radixway.core.telemetry import MetricsRegistry
from support.chatting import Chatter, login
from support.hand_driven_worker import CHAT, hand_driven_worker
from support.running_gateway import RunningGateway, running_gateway

SECRET = "nobody is to read this"
PULLED = {"name": "our-model", "model_id": "m", "max_input_length": 1024, "max_total_length": 2048}
Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningGateway]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    chat = {"allow_debug_auth": True, "debug_api_keys": ["0000"], "models": [PULLED]}
    async with running_gateway(chat=chat) as running:
        yield running


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What chats log, whatever else was done to logging in this process."""
    logger, lines = logging.getLogger("radixway.chat"), list[str]()
    before = logger.level
    logger.setLevel(logging.DEBUG)
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(before)


async def scraped(gateway: RunningGateway) -> dict[Sample, float]:
    """Every sample, as Prometheus' own client reads it."""
    headers = {"accept": "text/plain;version=0.0.4"}
    async with gateway.client.get(f"{gateway.url}/metrics", headers=headers) as response:
        assert response.status == 200
        families = list(text_string_to_metric_families(await response.text()))
    assert all(family.documentation for family in families if family.name.startswith("inference_"))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def of(samples: dict[Sample, float], name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset({"model": "our-model", **labels}.items())))


def jobs(samples: dict[Sample, float]) -> dict[str, float]:
    """By state."""
    return {
        dict(labels)["state"]: value
        for (name, labels), value in samples.items()
        if name == "radixway_chat_jobs"
    }


async def ask(user: Chatter, **more: Any) -> str:
    """The path of an answer that was asked for."""
    chat = await user.chat()
    body = {"content": SECRET, "model": "our-model", "reply": "later"} | more
    status, turn = await user.call("POST", f"{chat}/messages", body)
    assert status < 300, turn
    return f"{chat}/messages/{turn['answer']['id']}"


async def test_what_became_of_answers_is_counted_by_model_and_logged_without_a_word_of_them(
    gateway: RunningGateway, told: list[str]
) -> None:
    eve = await login(gateway, "eve")
    waiting = await ask(eve)
    samples = await scraped(gateway)
    assert of(samples, "inference_queue_depth") == 1
    assert jobs(samples) == {"ready": 1, "leased": 0, "blocked": 0, "dead": 0}
    assert samples["radixway_chat_oldest_job_seconds", frozenset({("state", "ready")})] > 0
    assert of(samples, "inference_active_workers") is None
    async with hand_driven_worker(gateway) as worker:
        request = await worker.work()
        samples = await scraped(gateway)
        assert of(samples, "inference_queue_depth") == 0
        assert jobs(samples) == {"ready": 0, "leased": 1, "blocked": 0, "dead": 0}
        assert of(samples, "inference_active_workers") == 1
        await worker.say(request, "Well, ", SECRET)
        await worker.finish(request, f"Well, {SECRET}")
        await _ended(eve, waiting)
        failing = await ask(eve)
        for _ in range(3):
            await worker.fail(await worker.work(), f"out of memory: {SECRET}")
        await _ended(eve, failing)
    stopped = await ask(eve)
    assert (await eve.call("POST", f"{stopped}/stop"))[0] == 200

    samples = await scraped(gateway)

    for status in ("complete", "aborted_by_worker", "cancelled"):
        assert of(samples, "inference_requests_total", status=status) == 1, status
    assert of(samples, "inference_latency_seconds_count") == 1
    assert of(samples, "inference_time_to_first_token_seconds_count") == 1
    assert of(samples, "inference_tokens_total", kind="completion") == 2
    for words in (
        *("registered for m-2048-1024-f", "attempt 1 dispatched to worker", "complete after"),
        *("2 tokens, worker", "attempt 2 failed, queued again", "aborted_by_worker after", "left after"),
    ):
        assert any(words in line for line in told), (words, told)
    assert not any(SECRET in line for line in told)


async def _ended(user: Chatter, answer: str) -> None:
    async with asyncio.timeout(10):
        while (await user.call("GET", answer))[1]["state"] in ("pending", "in_progress"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_gpus_of_workers_are_told_as_they_tell_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway(chat=CHAT | {"workers": {"ping_s": 0.05}}) as gateway:
        async with hand_driven_worker(gateway) as worker:
            ping = await worker.socket.receive_json()
            gpus = [{"gpu_usage": 25.0, "mem_usage": 10.0}, {"gpu_usage": 75.0, "mem_usage": 10.0}]
            metrics = {"created_at": "2026-01-01T00:00:00", "cpu_usage": 1.5, "gpus": gpus}
            await worker.send({"request_id": ping["id"], "response_type": "pong", "metrics": metrics})
            await worker.socket.receive_json()  # the next one is sent when this was heard
            async with hand_driven_worker(gateway) as second:  # whoever comes has all of them noted
                await second.socket.receive_json()
                samples = await scraped(gateway)
    (busy,) = (value for (name, _), value in samples.items() if name == "radixway_chat_gpu_utilisation_ratio")
    assert busy == 0.5


def test_names_that_workers_make_up_do_not_grow_without_bound() -> None:
    metrics = MetricsRegistry()
    counted = AnswerMetrics(metrics, max_models=2)
    counted.active_workers = lambda: [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]
    families = text_string_to_metric_families(metrics.render_text().decode())
    workers = next(family for family in families if family.name == "inference_active_workers")
    assert {s.labels["model"]: s.value for s in workers.samples} == {"a": 1.0, "b": 2.0, OTHER: 7.0}
