"""/prefetch: what is computed ahead is found by the request it was meant for, and by no other tenant's."""

from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

SYSTEM = {"role": "system", "content": "You are the guide of a small museum of machines. " * 20}
QUESTION = {"role": "user", "content": "What is a radix tree?"}


async def prefetch(served: Served, **body: Any) -> dict[str, Any]:
    response = await served.post("/prefetch", body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_chat_finds_the_system_prompt_that_was_prefetched(guide: Served) -> None:
    warm = await prefetch(guide, messages=[SYSTEM])
    assert warm["computed_tokens"] == warm["prompt_tokens"] > 200
    assert warm["prompt_tokens"] - 16 < warm["cached_tokens"] <= warm["prompt_tokens"]
    usage = (await guide.chat(messages=[SYSTEM, QUESTION], max_tokens=1)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == warm["cached_tokens"]


async def test_nothing_is_generated_and_what_is_there_is_not_computed_again(guide: Served) -> None:
    before = (await guide.info())["stats"]
    first = await prefetch(guide, text="a shared beginning " * 20)
    again = await prefetch(guide, text="a shared beginning " * 20)
    assert again["cached_tokens"] == first["cached_tokens"] and again["computed_tokens"] <= 16
    after = (await guide.info())["stats"]
    assert after["generated_tokens"] == before["generated_tokens"]
    assert after["kv_cached"] == first["cached_tokens"] and after["kv_used"] == 0


@pytest.mark.parametrize("key", [{}, {"extra_key": "adapter"}])
async def test_a_salt_keeps_what_was_prefetched_to_itself(guide: Served, key: dict[str, str]) -> None:
    ids = list(range(100, 164))
    warm = await prefetch(guide, input_ids=ids, cache_salt="tenant", **key)
    assert warm["cached_tokens"] == 64
    found = []
    for salt in (None, "other", "tenant"):
        body = {"input_ids": [*ids, 7], "cache_salt": salt, "sampling_params": {"max_new_tokens": 1}, **key}
        found.append((await guide.post("/generate", body)).json()["meta_info"]["cached_tokens"])
    assert found == [0, 0, 64]


async def test_priority_salt_and_prompt_reach_the_engine(served: Served) -> None:
    body = {"input_ids": [5, 6, 7], "cache_salt": "tenant", "priority": 4}
    await served.post("/prefetch", body)
    ((prompt, params, namespace, priority),) = served.engine.submitted
    assert (prompt, params.max_tokens, namespace, priority) == ([5, 6, 7], 0, "tenant", 4)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "a", "input_ids": [1]}, "input_ids"),
        ({"text": "a", "messages": [QUESTION]}, "messages"),
        ({"text": ""}, "text"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [-1]}, "input_ids"),
        ({"input_ids": [[1]]}, "input_ids[0]"),
        ({"input_ids": [5] * 257}, "input_ids"),
        ({"messages": [{"role": "user", "content": "word " * 300}]}, "messages"),
        ({"messages": []}, "messages"),
        ({"text": "a", "priority": 2**31}, "priority"),
        ({"text": "a", "cache_salt": 5}, "cache_salt"),
        ({"text": "a", "model": "another"}, "model"),
    ],
)
async def test_bad_bodies_are_refused_with_the_field_at_fault(
    served: Served, body: dict[str, Any], param: str
) -> None:
    response = await served.post("/prefetch", body)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["param"] == param
    assert not served.engine.submitted


async def test_without_a_cache_there_is_nothing_to_prefetch_into(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = served.app.service.config.model_copy(update={"radix_cache": False})
    monkeypatch.setattr(served.app.service, "config", without)
    response = await served.post("/prefetch", {"text": "a"})
    assert response.status_code == 400 and response.json()["error"]["code"] == "cache_disabled"
