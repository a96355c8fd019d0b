"""`/docs` of a gateway, in a browser that reaches nothing else."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_paths_are_searched_and_opened_with_their_fields_and_a_call(live, browser):
    page = await browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(live.url) or errors.append(asked.url))
    await page.goto(f"{live.url}/docs")
    chat = page.locator("details[id='post/v1/chat/completions']")
    await expect(chat.locator("summary")).to_contain_text("A conversation's answer")
    listing = page.locator("details[id='get/list_workers']")
    await page.get_by_role("searchbox").fill("chat/completions")
    await expect(listing).to_be_hidden()
    await chat.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(chat.get_by_role("row").filter(has_text="messages *").first).to_be_visible()
    await expect(chat.locator("pre")).to_contain_text(f"curl -X POST {live.url}/v1/chat/completions")
    assert page.url.endswith("/docs#post/v1/chat/completions")
    await page.reload()
    await expect(chat.locator("pre")).to_be_visible()
    for entry in await page.locator("summary").all():
        await entry.evaluate("entry => entry.parentElement.open = true")
    await expect(page.locator("details > pre")).to_have_count(await page.locator("details").count())
    assert errors == []
    await page.close()
