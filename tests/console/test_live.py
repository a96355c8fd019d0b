"""*Live*, in the browser, while requests flow."""

import aiohttp
import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def ask(live, client):
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": "What is a KV cache?"}],
        "stream": True,
        "max_tokens": 16,
    }
    async with client.post(f"{live.url}/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        await answer.read()


async def test_figures_and_charts_move_with_the_traffic(live, open_page, pictures):
    page = await open_page("/live")
    tile = page.locator("[data-tile='live.workers']")
    await expect(tile).to_contain_text("of 2")
    async with aiohttp.ClientSession() as client:
        tokens = page.locator("[data-tile='live.completion'] .rw-figure")
        first = page.locator("[data-tile='live.first_token'] .rw-figure")
        while await tokens.inner_text() in ("–", "0") or await first.inner_text() == "–":
            await ask(live, client)
    await expect(page.locator("section svg path[stroke]").first).to_be_attached()
    for title, unit in (("Tokens: ", " /s"), ("First token: ", " ms"), ("Prefix hit rate: ", " %")):
        axis = page.get_by_role("img", name=title).locator("svg text")
        await expect(axis.filter(has_text=unit).first).to_be_attached()
    await pictures(page, "live")


async def test_who_comes_later_sees_what_was_before(live, open_page):
    page = await open_page("/live")
    await expect(page.locator("[data-tile='live.workers']")).to_contain_text("of 2")
    other = await open_page("/live", dark=True)
    chart = "getElement(+document.querySelector('.rw-chart').id.slice(1)).chart"
    await other.wait_for_function(f"() => {chart}?.getOption().series[0].data.length > 0")
