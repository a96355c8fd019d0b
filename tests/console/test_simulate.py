"""*Simulate* in the browser: policies compared on a trace that is made up, and on a file."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from console.conftest import PATIENCE_MS

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

LINES = [
    {"timestamp": at * 50, "input_length": 70, "output_length": 4, "hash_ids": [at % 4, at], "block_size": 32}
    for at in range(1, 80)
]
TRACE = "".join(json.dumps(line) + "\n" for line in LINES).encode()


async def test_a_made_up_trace_is_simulated_compared_and_saved(open_page, pictures):
    page = await open_page("/simulate")
    await page.get_by_label("First requests only").fill("300")
    before = await page.locator(".rw-job").count()
    await page.get_by_role("button", name="Compare").dblclick()
    rows = page.locator(".rw-compare tbody tr")
    await expect(rows).to_have_count(5, timeout=PATIENCE_MS)
    await expect(rows.first).to_contain_text("expected_time")
    await expect(page.locator(".rw-compare td.best").first).to_be_visible()
    for name in ("Time to first token", "Over time", "Hit rate", "Balance"):
        await expect(page.get_by_role("img", name=name).locator("svg")).to_be_visible()
    await page.wait_for_url("**/simulate?job=*")
    await expect(page.locator(".rw-job")).to_have_count(before + 1)
    await pictures(page, "simulate")
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download").click()
    path = await (await download.value).path()
    saved = json.loads(path.read_bytes())
    assert saved["result"]["policies"]["round_robin"]["figures"]["requests"] == 300


async def test_a_file_is_simulated_and_one_that_is_none_says_why(open_page):
    page = await open_page("/simulate")
    for name, content, told in (("mine.jsonl", TRACE, "79 requests"), ("none.txt", b"none\n", "trace:1")):
        await page.get_by_label("Trace").click()
        await page.get_by_role("option", name="Upload a file").click()
        await page.locator("input[type=file]").set_input_files(
            {"name": name, "mimeType": "text/plain", "buffer": content}
        )
        await expect(page.locator(".q-uploader__file")).to_contain_text(name)
        await expect(page.locator(".q-uploader__file--uploaded")).to_be_visible()
        await page.get_by_role("button", name="Compare").click()
        await expect(page.get_by_role("button", name=name)).to_be_visible()
        await expect(page.get_by_text(told)).to_be_visible(timeout=PATIENCE_MS)
        await page.reload()
        await page.wait_for_function("() => window.did_handshake")
