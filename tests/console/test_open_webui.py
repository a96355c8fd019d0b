"""Open WebUI in front of a gateway, as docs/guides/open-webui.md has it; RADIXWAY_OPEN_WEBUI: its command."""

import json
import os
import subprocess

import aiohttp
import pytest
from playwright.async_api import expect

from support.free_ports import find_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        "RADIXWAY_OPEN_WEBUI" not in os.environ, reason="RADIXWAY_OPEN_WEBUI names no command"
    ),
]
ACCOUNT = {"name": "Anna", "email": "anna@example.org", "password": "a-long-passw0rd"}
SETTINGS = {
    "OPENAI_API_KEY": "none",
    "ENABLE_OLLAMA_API": "false",
    "DEFAULT_MODEL_METADATA": json.dumps({"capabilities": {"builtin_tools": False}}),
    "OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
    "WEBUI_SECRET_KEY": "of-a-test",
}


@pytest.fixture(scope="module")
def open_webui(live, tmp_path_factory):
    """Its URL."""
    port, data = find_port(), tmp_path_factory.mktemp("open-webui")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= SETTINGS | {"DATA_DIR": str(data), "OPENAI_API_BASE_URL": f"{live.url}/v1"}
    command = [os.environ["RADIXWAY_OPEN_WEBUI"], "serve", "--host", "127.0.0.1", "--port", str(port)]
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


async def test_a_person_signs_up_finds_the_models_and_is_answered(open_webui, live, browser):
    async with aiohttp.ClientSession(open_webui) as session:
        await until_it_answers(session)
        async with session.post("/api/v1/auths/signup", json=ACCOUNT) as answer:
            headers = {"authorization": f"Bearer {(await answer.json())['token']}"}
        async with session.get("/api/models", headers=headers) as answer:
            models = [model["id"] for model in (await answer.json())["data"]]
        assert {"auto", "radixway-guide"} <= set(models)
        messages = [{"role": "user", "content": "What is a radix tree?"}]
        body = {"model": "radixway-guide", "messages": messages, "stream": True}
        async with session.post("/api/chat/completions", json=body, headers=headers) as answer:
            assert answer.content_type == "text/event-stream"
            assert (await answer.text()).count("data: {") > 3
    page = await browser.new_page()
    await page.goto(f"{open_webui}/auth")
    await page.locator("#email").fill(ACCOUNT["email"])
    await page.locator("input[type=password]").first.fill(ACCOUNT["password"])
    await page.locator("button[type=submit]").click()
    await page.locator("#chat-input").wait_for()
    await page.keyboard.press("Escape")  # what is new in this version
    await page.get_by_role("button", name="Selected model").click()
    await page.get_by_role("option", name="radixway-guide").click()
    await page.locator("#chat-input").click()
    await page.keyboard.type("What is a KV cache?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("cache").nth(1)).to_be_visible()
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {live.key}"}) as session:
        answered = 0
        while answered < 2:  # the one of the API, and the browser's
            async with session.get(f"{live.url}/requests?model=radixway-guide&status=200") as answer:
                answered = len((await answer.json())["requests"])
    await page.close()


async def until_it_answers(session):
    while True:
        try:
            async with session.get("/health") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientConnectionError:
            pass
