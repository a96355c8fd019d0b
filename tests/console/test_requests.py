"""*Requests* in the browser: the list, its filters, and one request's way through the house."""

from __future__ import annotations

import aiohttp
import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SYSTEM = "You are the guide of a museum of machines. Answer briefly and kindly. " * 8
HOSTILE = "<img src=x onerror=window.hacked=1>"


async def ask(live, request_id: str, **fields) -> int:
    body = {
        "model": "auto",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "What is a tree?"}],
        "max_tokens": 4,
        **fields,
    }
    async with (
        aiohttp.ClientSession() as client,
        client.post(
            f"{live.url}/v1/chat/completions", json=body, headers={"x-request-id": request_id}
        ) as answer,
    ):
        await answer.read()
        return answer.status


async def test_one_request_is_followed_to_its_explanation(live, open_page, pictures):
    assert await ask(live, "followed/1", stream=True) == 200
    page = await open_page("/requests")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="followed/1"))
    await expect(row).to_contain_text("200")
    await pictures(page, "requests")
    await page.get_by_role("link", name="followed/1").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("followed/1")
    candidates = page.locator(".rw-candidates li")
    await expect(candidates).to_have_count(2)
    await expect(page.locator(".rw-candidates li.chosen")).to_contain_text("chosen")
    await expect(page.locator(".rw-candidates li.chosen")).to_contain_text("prefill_s")
    steps = page.locator(".rw-way summary")
    await expect(steps.first).to_contain_text("openai.chat")
    await expect(page.locator(".rw-pre").first).to_be_hidden()
    chosen = steps.filter(has_text="worker chosen")
    await chosen.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".rw-way .rw-pre").filter(has_text="expected_time")).to_be_visible()
    await pictures(page, "request")
    await page.get_by_role("link", name="All requests").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Requests")


async def test_filters_stand_in_the_address_and_are_found_there(live, open_page):
    await ask(live, "well-1")
    assert await ask(live, "refused-1", model=HOSTILE) == 404
    page = await open_page("/requests?status=4xx")
    await expect(page.get_by_role("link", name="refused-1")).to_be_visible()
    await expect(page.get_by_role("link", name="well-1")).to_have_count(0)
    await expect(page.get_by_role("cell", name=HOSTILE)).to_be_visible()
    assert await page.evaluate("() => window.hacked") is None
    await page.keyboard.press("/")
    await page.keyboard.type("refused")
    await page.wait_for_url("**/requests?status=4xx&q=refused")
    await page.get_by_role("link", name="refused-1").click()
    await expect(page.get_by_text("model_not_found", exact=True)).to_be_visible()


async def test_a_page_is_turned_and_new_requests_come_by_themselves(live, open_page):
    for number in range(60):
        await ask(live, f"many-{number:02}", model="nobody")
    page = await open_page("/requests?q=many-")
    links = page.locator("tbody").get_by_role("link")
    await expect(links).to_have_count(50)
    await expect(page.get_by_role("button", name="Newer")).to_be_disabled()
    await page.get_by_role("button", name="Older").click()
    await expect(links).to_have_count(10)
    await expect(page.get_by_role("button", name="Older")).to_be_disabled()
    await page.get_by_role("button", name="Newer").click()
    await expect(links).to_have_count(50)
    await ask(live, "many-new", model="nobody")
    await expect(links.first).to_have_text("many-new")


async def test_who_is_not_known_any_more_is_said(open_page):
    page = await open_page("/requests/never-asked")
    await expect(page.get_by_text("does not know this request")).to_be_visible()


async def test_what_a_rule_blocked_is_not_shown_as_well_and_says_why(live, open_page):
    rules = live.rules.read_text()
    live.rules.write_text(
        f"{rules}regex_rules:\n  - {{name: no-zeus, pattern: zeus, action: block, message: not here}}\n"
    )
    try:
        await reload_rules(live)
        asked = [{"role": "user", "content": "What of zeus?"}]
        assert await ask(live, "blocked-1", messages=asked) == 403
    finally:
        live.rules.write_text(rules)
        await reload_rules(live)
    page = await open_page("/requests?q=blocked-1")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="blocked-1"))
    await expect(row.locator(".rw-chip.bad").first).to_have_text("403")
    await expect(row).to_contain_text("blocked_by_rule")
    await expect(row).to_contain_text("rule: no-zeus")
    await expect(row.get_by_text("default", exact=True)).to_be_visible()
    await page.get_by_role("link", name="blocked-1").click()
    await expect(page.locator(".rw-facts").get_by_text("rule: no-zeus")).to_be_visible()


async def reload_rules(live):
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {live.key}"}) as session:
        async with session.post(f"{live.url}/config/semantic/reload") as answer:
            assert answer.status == 200
