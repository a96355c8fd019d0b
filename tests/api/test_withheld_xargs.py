"""Clients cannot make vLLM publish blocks again that it has published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixway.core.pipeline import ENDPOINTS
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

FIELDS: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "prompt": "hello",
    "text": "hello",
    "input": "hello",
    "query": "hello",
    "documents": ["one"],
    "text_1": "hello",
    "text_2": "hello",
}


@pytest.mark.parametrize("path", sorted(ENDPOINTS.served_directly()))
@pytest.mark.parametrize("extra_chars", [0, 100_000], ids=["small", "large"])
async def test_no_endpoint_passes_the_report_mode_on(path: str, extra_chars: int) -> None:
    body = FIELDS | {"prompt": "hello" + "x" * extra_chars, "text": "hello" + "x" * extra_chars}
    body["messages"] = [{"role": "user", "content": f"hello {n}"} for n in range(1 + extra_chars // 50)]
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        for given, passed in (
            ({"kv_cache_report_mode": "full"}, None),
            (
                {"kv_cache_report_mode": "full", "session_id": "s", "depth": 2},
                {"session_id": "s", "depth": 2},
            ),
            ({"session_id": "s"}, {"session_id": "s"}),
            ({}, {}),
        ):
            status, answer, _ = await gateway.post(path, {**body, "vllm_xargs": given})
            assert status == 200, answer
            assert worker.requests[-1].json().get("vllm_xargs") == passed
        escaped = json.dumps({**body, "vllm_xargs": {"KEY": "full"}}).replace(
            "KEY", "kv_cache_report\\u005fmode"
        )
        status, answer, _ = await gateway.post(path, escaped.encode())
        assert status == 200, answer
        assert "vllm_xargs" not in worker.requests[-1].json()


async def test_what_is_no_object_is_the_workers_to_refuse() -> None:
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        for given in (["kv_cache_report_mode"], "kv_cache_report_mode", 3, None):
            assert (await gateway.chat(vllm_xargs=given))[0] == 200
            assert worker.requests[-1].json()["vllm_xargs"] == given
