"""What is at `/`: the console for browsers, an index for all others."""

import re

import pytest

from radixway._version import __version__
from support.running_gateway import running_gateway

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
KEYS = {"acme": {"keys": [{"key": "hush", "scopes": ["user", "admin"]}]}}


@pytest.mark.parametrize("tenants", [{}, KEYS], ids=["open", "with keys"])
async def test_a_browser_is_led_to_the_console(tenants):
    async with running_gateway(tenants=tenants) as gateway:
        async with gateway.client.get(gateway.url, headers=BROWSER, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"]) == (307, "/console")
            assert "accept" in answer.headers["vary"].lower()


@pytest.mark.parametrize("tenants", [{}, KEYS], ids=["open", "with keys"])
async def test_other_clients_get_an_index_whose_links_answer(tenants):
    async with running_gateway(tenants=tenants) as gateway:
        status, told = await gateway.get("/")
        assert (status, told["name"], told["version"]) == (200, "Radixway", __version__)
        assert {"docs", "models", "console", "health"} <= told["links"].keys()
        for path in told["links"].values():
            key = {"authorization": "Bearer hush"}
            async with gateway.client.get(gateway.url + path, headers=key, allow_redirects=False) as answer:
                # Completions take POST alone, and the console asks for its own sign-in or leads to a page.
                allowed = (307, 401) if path == "/console" else (200, 405)
                assert answer.status in allowed, path
        async with gateway.client.head(gateway.url) as answer:
            assert answer.status == 200


async def test_without_a_console_a_browser_gets_the_index_too():
    async with running_gateway(console={"enabled": False}) as gateway:
        async with gateway.client.get(gateway.url, headers=BROWSER, allow_redirects=False) as answer:
            assert answer.status == 200 and "console" not in (await answer.json())["links"]


async def test_the_reference_of_the_api_loads_nothing_from_elsewhere():
    async with running_gateway(tenants=KEYS) as gateway:
        async with gateway.client.get(f"{gateway.url}/docs") as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (200, "text/html")
            assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert re.findall(r"https?://|//cdn", text) == []
        async with gateway.client.get(f"{gateway.url}/redoc") as answer:
            assert (answer.status, answer.url.path) == (200, "/docs")
