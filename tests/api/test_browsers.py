"""What pages of other sites can do to a gateway through their visitors' browsers: nothing."""

import aiohttp
import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

ELSEWHERE = "https://elsewhere.example"
OTHER_SITES = [
    {"origin": ELSEWHERE},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]
CHAT = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
CHANGES = [
    ("POST", "/add_worker"),
    ("POST", "/remove_worker"),
    ("POST", "/drain_worker"),
    ("POST", "/resume_worker"),
    ("POST", "/workers"),
    ("DELETE", "/workers"),
    ("POST", "/abort_request"),
    ("POST", "/pause_generation"),
    ("POST", "/continue_generation"),
    ("POST", "/update_weights_from_disk"),
    ("POST", "/flush_cache"),
    ("GET", "/flush_cache"),
    ("POST", "/admin/erase"),
    ("POST", "/auth/operator"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/generate"),
]
READS = ["/list_workers", "/workers", "/v1/models", "/requests", "/explain/x", "/openapi.json", "/chats"]


async def ask(gateway, method, path, body=None, **headers):
    """Status and text."""
    named = {"content-type": "text/plain"} | headers
    async with gateway.client.request(method, gateway.url + path, data=body, headers=named) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("tree", [{}, {"admin_networks": ["127.0.0.0/8"]}], ids=["keyless", "network"])
async def test_a_page_of_another_site_changes_nothing(tree):
    async with scripted_worker() as worker, running_gateway(worker.url, gateway=tree) as gateway:
        body = b'{"url": "%s", "abort_all": true, "model": "m"}' % worker.url.encode()
        passed = []
        for method, path in CHANGES:
            for headers in OTHER_SITES:
                sent = None if method == "GET" else CHAT if path.startswith(("/v1", "/gen")) else body
                status, said = await ask(gateway, method, path, sent, **headers)
                if status != 403 or "gateway.cors_origins" not in said:
                    passed.append((method, path, headers, status, said[:80]))
        assert passed == []
        assert [one.state.value for one in gateway.gateway.registry] == ["ready"]
        assert worker.requests == []


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_the_gateways_own_pages_and_what_is_no_browser_may_change_it(site):
    async with running_gateway() as gateway:
        for headers in ({}, {"sec-fetch-site": site}, {"origin": gateway.url, "sec-fetch-site": site}):
            status, said = await ask(
                gateway, "POST", "/add_worker", b'{"url": "http://127.0.0.1:9"}', **headers
            )
            assert status == 200, said


async def test_a_link_on_another_site_may_lead_to_what_only_shows():
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    async with running_gateway() as gateway:
        assert (await ask(gateway, "GET", "/requests", **headers))[0] == 200


async def test_a_page_under_a_name_that_was_led_here_reads_and_asks_nothing():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        rebound = {"host": "rebound.example:30000"}
        posted = rebound | {"origin": "http://rebound.example:30000", "sec-fetch-site": "same-origin"}
        for path in READS:
            status, said = await ask(gateway, "GET", path, **rebound)
            assert status == 403 and "gateway.hosts" in said, (path, said)
        for method, path in CHANGES:
            status, said = await ask(gateway, method, path, CHAT, **posted)
            assert status == 403, (path, said)
        assert (await ask(gateway, "GET", "/ready", **rebound))[0] == 200  # for probes
        async with gateway.client.get(
            gateway.url + "/requests", headers=rebound | {"x-request-id": "x"}
        ) as it:
            assert it.headers["x-request-id"] == "x"
        assert worker.requests == []


async def test_a_name_that_is_configured_is_the_gateways_own():
    tree = {"hosts": ["models.example"]}
    async with scripted_worker() as worker, running_gateway(worker.url, gateway=tree) as gateway:
        named = {"host": "models.example:8443", "origin": "https://models.example:8443"}
        assert (await ask(gateway, "POST", "/v1/chat/completions", CHAT, **named))[0] == 200
        rewritten = {"origin": "https://models.example"}  # a proxy has put another name into `Host`
        assert (await ask(gateway, "POST", "/v1/chat/completions", CHAT, **rewritten))[0] == 200
        rewritten = {"origin": "https://models.example:8443"}
        assert (await ask(gateway, "POST", "/v1/chat/completions", CHAT, **rewritten))[0] == 403


async def test_where_keys_are_needed_a_page_that_has_one_may_come_from_anywhere():
    tenants = {"a": {"keys": [{"key": "hush"}]}}
    tree = {"admin_key": "the-admin-key"}
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway=tree, tenants=tenants) as gateway,
    ):
        headers = {"host": "models.example", "origin": ELSEWHERE, "sec-fetch-site": "cross-site"}
        key = {"authorization": "Bearer hush"}
        assert (await ask(gateway, "POST", "/v1/chat/completions", CHAT, **headers, **key))[0] == 200
        assert (await ask(gateway, "GET", "/v1/models", **headers, **key))[0] == 200
        admin = {"authorization": "Bearer the-admin-key"}
        body = b'{"url": "http://127.0.0.1:9"}'
        assert (await ask(gateway, "POST", "/add_worker", body, **headers, **admin))[0] == 200


async def test_an_admin_key_lets_in_under_any_name():
    async with running_gateway(gateway={"admin_key": "the-admin-key"}) as gateway:
        named = {"host": "models.example", "authorization": "Bearer the-admin-key"}
        assert (await ask(gateway, "GET", "/requests", **named))[0] == 200
        assert (await ask(gateway, "GET", "/v1/models", host="models.example"))[0] == 403


@pytest.mark.parametrize(
    "header",
    [
        {"x-forwarded-for": "203.0.113.7"},
        {"forwarded": "for=203.0.113.7"},
        {"x-real-ip": "203.0.113.7"},
        {"x-forwarded-host": "models.example"},
        {"via": "1.1 caddy"},
    ],
    ids=lambda header: next(iter(header)),
)
async def test_behind_a_proxy_on_this_machine_nobody_is_local(header):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, said = await ask(gateway, "POST", "/add_worker", b'{"url": "http://127.0.0.1:9"}', **header)
        assert status == 401 and "gateway.admin_key" in said and next(iter(header)) in said
        assert (await ask(gateway, "GET", "/requests", **header))[0] == 401
        async with gateway.client.get(gateway.url + "/whoami", headers=header) as answer:
            assert (await answer.json())["admin"] is False
        assert (await ask(gateway, "POST", "/v1/chat/completions", CHAT, **header))[0] == 200


async def test_a_proxy_in_an_admin_network_was_named_on_purpose():
    async with running_gateway(gateway={"admin_networks": ["127.0.0.0/8"]}) as gateway:
        body = b'{"url": "http://127.0.0.1:9"}'
        headers = {"x-forwarded-for": "203.0.113.7"}
        assert (await ask(gateway, "POST", "/add_worker", body, **headers))[0] == 200


async def test_a_gateway_that_passes_a_call_on_is_no_proxy():
    async with running_gateway() as inner, running_gateway(inner.url, wait=False) as outer:
        status, said = await ask(outer, "POST", "/pause_generation", b"{}")
        assert status == 502 and '"no_workers"' in said, said  # which the inner one says


async def test_listed_origins_are_answered_as_browsers_want_it():
    tree = {"cors_origins": ["https://app.example"]}
    async with scripted_worker() as worker, running_gateway(worker.url, gateway=tree) as gateway:
        page = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
        asking = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
        url = gateway.url + "/v1/chat/completions"
        async with gateway.client.options(url, headers=page | asking) as answer:
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
        async with gateway.client.post(url, data=CHAT, headers=page) as answer:
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
            assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
        async with gateway.client.post(url, data=CHAT, headers={"origin": ELSEWHERE}) as answer:
            assert answer.status == 403 and "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/console/_nicegui_ws/socket.io/", "/workers/work"])
async def test_a_page_of_another_site_opens_no_socket(path):
    async with running_gateway(chat={"enabled": True}) as gateway:
        for origin in (ELSEWHERE, "null"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await gateway.client.ws_connect(gateway.url + path, origin=origin)
            assert refused.value.status == 403
