"""*Prefixes* in the browser: drawn, as a table, and chosen between."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from console.test_requests import ask

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_what_is_shared_is_drawn_and_stands_in_a_table(live, open_page, pictures):
    for number, question in enumerate(("one", "two", "three", "four", "five")):
        messages = [
            {"role": "system", "content": "A museum of prefixes, open every day. " * 20},
            {"role": "user", "content": f"Tell me of machine {question}."},
        ]
        assert await ask(live, f"prefix-{number}", messages=messages) == 200
    page = await open_page("/prefixes")
    await expect(page.get_by_role("img", name="A drawing of shared prefixes")).to_be_visible()
    await expect(page.locator(".rw-burst canvas")).to_be_visible()
    # The first ones may be known by their text, while the tokenizer is read: they share with each other.
    shared = page.locator("tbody tr").filter(has_text=re.compile(r"tokens.*default \([3-5]\)", re.DOTALL))
    await expect(shared.first).to_be_visible()
    await expect(page.locator(".rw-legend > span").last).to_contain_text("≥")
    await pictures(page, "prefixes")
    await page.get_by_role("button", name="tree", exact=True).click()
    await expect(page.locator(".rw-tree svg")).to_contain_text("tokens")
    await page.wait_for_url("**/prefixes?*view=tree*")
    await pictures(page, "prefixes-tree")
    page = await open_page("/prefixes", phone=True)
    begins = page.locator("tbody td:visible").filter(has_text="From token")
    await expect(begins.filter(has_text=re.compile(r"token\s*0")).first).to_be_visible()
    await expect(begins.filter(has_not_text=re.compile(r"\d"))).to_have_count(0)


async def test_engines_tell_what_they_cache(live, open_page):
    await ask(live, "cached-1")
    page = await open_page("/prefixes?source=caches")
    for url in live.engines:
        await expect(
            page.locator("tbody tr").filter(has_text=url.removeprefix("http://")).first
        ).to_be_visible()
    await expect(page.get_by_text("museum")).to_have_count(0)


async def test_nothing_recorded_is_said(open_page):
    page = await open_page("/prefixes?source=trajectories")
    await expect(page.get_by_text("Nothing is recorded.")).to_be_visible()
