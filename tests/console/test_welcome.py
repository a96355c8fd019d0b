"""The first page: three things to do, and what stands there before it is drawn."""

import pytest
from playwright.async_api import expect

from console.test_requests import ask

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_a_first_visit_is_led_to_a_question_a_decision_and_a_comparison(live, open_page, pictures):
    assert await ask(live, "seen-first") == 200
    page = await open_page("/")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Welcome to Radixway")
    await expect(page.get_by_role("status")).to_contain_text("2 of 2 workers ready")
    await pictures(page, "welcome")
    question = "What is a radix tree? " * 1000  # longer than an address may be
    await page.get_by_label("Your question").fill(question)
    await page.get_by_role("button", name="Ask", exact=True).click()
    await page.wait_for_url("**/console/playground")
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value(question.strip())
    await expect(page.get_by_role("link", name="This request")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("")
    page = await open_page("/welcome")
    await page.get_by_role("link", name="The latest request").click()
    await expect(page.locator(".rw-candidates li.chosen")).to_be_visible()
    page = await open_page("/welcome")
    await page.get_by_role("link", name="Open the simulator").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Simulate")


async def test_a_link_from_elsewhere_fills_in_a_prompt_and_asks_nobody(open_page):
    page = await open_page("/playground?run=1&prompt=What%20is%20a%20tree%3F")
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("What is a tree?")
    await expect(page.get_by_role("button", name="Run")).to_be_enabled()
    await page.wait_for_function("() => window.did_handshake")
    await expect(page.get_by_role("link", name="This request")).to_have_count(0)
    assert "run=1" in page.url


@pytest.mark.parametrize(("locale", "title"), [("en-GB", "Workers"), ("zh-CN", "工作节点")])
async def test_the_frame_stands_there_before_any_script_has_run(browser, live, signed_in, locale, title):
    context = await browser.new_context(java_script_enabled=False, locale=locale, color_scheme="dark")
    await context.add_cookies(signed_in)
    page = await context.new_page()
    await page.goto(f"{live.url}/console/workers")
    skeleton = page.locator("#rw-skeleton")
    await expect(skeleton.locator("a").first).to_be_visible()
    await expect(skeleton.locator(".rw-skeleton-main")).to_contain_text(title)
    ground = await skeleton.evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == "rgb(15, 21, 19)"
    await context.close()


async def test_the_frame_is_gone_once_the_page_is_drawn(open_page):
    page = await open_page("/workers")
    await expect(page.locator("#rw-skeleton")).to_be_hidden()


async def test_in_chinese_and_on_a_phone(open_page):
    page = await open_page("/welcome", phone=True, locale="zh-CN", dark=True)
    await expect(page.get_by_role("heading", level=1)).to_have_text("欢迎使用 Radixway")
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
