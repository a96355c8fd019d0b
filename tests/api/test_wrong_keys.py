"""Whoever tries keys at a gateway is told to stop; whoever has one is served beside them."""

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

TENANTS = {"acme": {"keys": [{"key": "hush"}]}}
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CALLS = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("POST", "/add_worker"),
    ("GET", "/requests"),
    ("GET", "/metrics/prometheus"),
    ("GET", "/whoami"),
    ("GET", "/usage"),
]
MOST = 20


async def ask(gateway, method, path, key=None, header="authorization"):
    """Status, Retry-After and the error's code."""
    value = {"authorization": f"Bearer {key}", "x-api-key": str(key)}[header]
    sent = {} if method == "GET" else {"json": BODY}
    headers = {} if key is None else {header: value}
    async with gateway.client.request(method, gateway.url + path, headers=headers, **sent) as answer:
        told = await answer.json(content_type=None) if "json" in answer.content_type else {}
        return answer.status, answer.headers.get("retry-after"), (told.get("error") or {}).get("code")


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_after_many_wrong_keys_another_is_too_many_and_right_ones_work(method, path, header):
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"admin_key": "the-admin-key"}, tenants=TENANTS) as gateway,
    ):
        for number in range(MOST):
            status, _, _ = await ask(gateway, method, path, f"wrong-{number}", header)
            assert status == (200 if path == "/whoami" else 401)
        status, wait, code = await ask(gateway, method, path, "wrong-again", header)
        assert (status, code) == (429, "too_many_wrong_keys") and 0 < int(wait) <= 60
        assert (await ask(gateway, "POST", "/v1/chat/completions", "hush", header))[0] == 200
        assert (await ask(gateway, "GET", "/v1/models", "hush", header))[0] == 200
        assert (await ask(gateway, "GET", "/requests", "the-admin-key"))[0] == 200
        assert (await ask(gateway, "GET", "/whoami", "the-admin-key"))[0] == 200


async def test_right_keys_and_none_at_all_are_no_attempts():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"admin_key": "the-admin-key"}, tenants=TENANTS) as gateway,
    ):
        for method, path in CALLS * 4:
            await ask(gateway, method, path, "hush")
            await ask(gateway, method, path, "the-admin-key")
            await ask(gateway, method, path)
        assert (await ask(gateway, "GET", "/requests", "wrong"))[0] == 401


async def test_where_only_administrators_have_a_key_others_may_send_any():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"admin_key": "the-admin-key"}) as gateway,
    ):
        for _ in range(2 * MOST):  # clients that must send something do
            assert (await ask(gateway, "POST", "/v1/chat/completions", "EMPTY"))[0] == 200
            assert (await ask(gateway, "GET", "/v1/models", "EMPTY"))[0] == 200
        for _ in range(MOST):
            assert (await ask(gateway, "POST", "/add_worker", "EMPTY"))[0] == 401
        assert (await ask(gateway, "POST", "/add_worker", "EMPTY"))[0] == 429
