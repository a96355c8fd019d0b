"""Who is told what by `/health` and `/metrics`, on the port that clients reach."""

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

ADMIN = {"authorization": "Bearer the-admin-key"}
TENANTS = {
    "acme-secret-project": {"keys": [{"key": "hush"}]},
    "ops": {"keys": [{"key": "scraper", "scopes": ["metrics"]}]},
}
SCRAPES = ["/metrics", "/metrics?format=prometheus", "/metrics/prometheus"]


async def get(gateway, path, **headers):
    async with gateway.client.get(gateway.url + path, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.fixture
async def locked(tmp_path):
    """With keys, a file of usage, an audit log, and one request of a tenant's."""
    tenants = TENANTS | {"usage": {"persist": True, "path": str(tmp_path / "usage.sqlite")}}
    async with (
        scripted_worker() as worker,
        running_gateway(
            worker.url,
            gateway={"admin_key": "the-admin-key"},
            tenants=tenants,
            guard={"audit": {"path": str(tmp_path / "audit")}},
        ) as gateway,
    ):
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        headers = {"authorization": "Bearer hush"}
        assert (await gateway.post("/v1/chat/completions", body, headers=headers))[0] == 200
        yield gateway


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer hush"}, {"authorization": "Bearer wrong"}])
async def test_who_may_not_know_is_told_whether_parts_work(locked, headers, tmp_path):
    status, said = await get(locked, "/health", **headers)
    assert status == 200
    told = (await locked.get("/health", headers=headers))[1]
    assert set(told) == {"status", "degraded", "version", "workers", "components"}
    assert told["workers"] == {"ready": 1, "total": 1}
    assert told["components"]["audit"] == told["components"]["tenants"] == "up"
    assert set(told["components"].values()) == {"up"}
    worker = next(iter(locked.gateway.registry)).name
    for secret in (str(tmp_path), worker, "acme", ".sqlite"):
        assert secret not in said


async def test_a_part_that_fails_is_down_and_why_is_not_told(locked):
    locked.gateway.audit.log.problem = "cannot write /srv/secret/audit"
    status, said = await get(locked, "/health")
    assert status == 200 and '"audit":"down"' in said and "/srv" not in said


@pytest.mark.parametrize("key", ["the-admin-key", "scraper"])
async def test_administrators_and_scrapers_are_told_all(locked, key, tmp_path):
    headers = {"authorization": f"Bearer {key}"}
    status, said = await get(locked, "/health", **headers)
    assert status == 200 and str(tmp_path) in said and "kv_events" in said
    for path in SCRAPES:
        assert (await get(locked, path, **headers))[0] == 200
    assert 'tenant="acme-secret-project"' in (await get(locked, "/metrics/prometheus", **headers))[1]


@pytest.mark.parametrize("path", SCRAPES)
async def test_a_scrape_without_a_key_is_told_what_to_do(locked, path):
    for headers in ({}, {"authorization": "Bearer wrong"}):
        status, said = await get(locked, path, **headers)
        assert status == 401 and "gateway.admin_networks" in said and "scrape_configs" in said
        assert "acme" not in said
    assert (await get(locked, path, authorization="Bearer hush"))[0] == 403


async def test_a_scrapers_key_is_for_nothing_else(locked):
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": "Bearer scraper"}
    assert (await locked.post("/v1/chat/completions", body, headers=headers))[0] == 403
    for path in ("/requests", "/list_workers", "/usage"):
        assert (await get(locked, path, **headers))[0] == 403, path
    assert (await locked.post("/add_worker", {"url": "http://127.0.0.1:9"}, headers=headers))[0] == 403


async def test_an_admin_network_scrapes_without_a_key():
    tree = {"admin_key": "the-admin-key", "admin_networks": ["127.0.0.0/8"]}
    async with running_gateway(gateway=tree) as gateway:
        assert (await get(gateway, "/metrics/prometheus"))[0] == 200
        assert "kv_events" in (await get(gateway, "/health"))[1]


async def test_without_keys_this_machine_is_told_all_and_others_whether_it_works():
    async with running_gateway() as gateway:
        for path in SCRAPES:
            assert (await get(gateway, path))[0] == 200
        assert "kv_events" in (await get(gateway, "/health"))[1]
        for headers in ({"x-forwarded-for": "203.0.113.7"}, {"host": "rebound.example"}):
            status, said = await get(gateway, "/health", **headers)
            assert status == 200 and "components" in said and "kv_events" not in said
