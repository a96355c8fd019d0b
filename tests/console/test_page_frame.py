"""What stands around every page, in the browser."""

import subprocess
import sys
from contextlib import contextmanager

import aiohttp
import pytest
from playwright.async_api import expect

from support.free_ports import find_port
from support.gateway_process import gateway_process

PATIENCE_MS = 60_000
pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_without_a_key_there_is_nothing_but_the_sign_in_page(live, browser):
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{live.url}/console/workers")
    await expect(page.get_by_label("Admin key")).to_be_visible()
    await page.get_by_label("Admin key").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    assert "wrong" not in page.url + str(await context.storage_state())
    await context.close()


async def test_signing_in_leads_to_the_page_that_was_asked_for(live, browser):
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{live.url}/console/requests?status=4xx&q=a%26b")
    await page.get_by_label("Admin key").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Admin key").fill(live.key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{live.url}/console/requests?status=4xx&q=a%26b")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
    await context.close()


@pytest.mark.parametrize(
    "wanted", ["//example.org/", "https://example.org/", "/console/\\\\example.org", "/v1"]
)
async def test_signing_in_leads_nowhere_else(live, wanted):
    async with aiohttp.ClientSession() as session:
        answer = await session.post(
            f"{live.url}/console/sign-in",
            params={"next": wanted},
            data={"key": live.key},
            headers={"origin": live.url},
            allow_redirects=False,
        )
        assert (answer.status, answer.headers["location"]) == (303, "/console/")


@pytest.mark.parametrize(("locale", "title"), [("en-GB", "There is no such page"), ("zh-CN", "没有此页面")])
async def test_unknown_addresses_have_a_page_of_the_consoles(open_page, live, locale, title):
    statuses = []

    async def listen(page):
        page.on("response", lambda response: statuses.append((response.url, response.status)))

    page = await open_page("/nowhere/at-all", locale=locale, before=listen)
    await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert (f"{live.url}/console/nowhere/at-all", 404) in statuses
    await page.get_by_role("link", name="Radixway").click()
    await page.wait_for_url(f"{live.url}/console/*")


async def test_signing_out_ends_what_other_tabs_show(live, browser):
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{live.url}/console/sign-in")
    await page.get_by_label("Admin key").fill(live.key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{live.url}/console/")
    other = await context.new_page()
    await other.goto(f"{live.url}/console/workers")
    await expect(other.locator("#rw-main")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("Admin key")).to_be_visible()
    await expect(other.get_by_label("Admin key")).to_be_visible()
    await context.close()


async def test_keys_lead_to_pages_and_show_what_they_do(open_page, live):
    page = await open_page("/workers")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await page.wait_for_url(f"{live.url}/console/workers")


async def test_the_first_tab_stop_leads_past_the_navigation(open_page):
    page = await open_page("/workers")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#rw-main")).to_be_focused()


async def test_language_and_colours_are_the_visitors(open_page):
    page = await open_page("/workers", locale="zh-CN", dark=True)
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("工作节点")
    await expect(page.locator("body.body--dark")).to_be_visible()


async def test_a_gateway_that_goes_away_is_told_and_the_page_goes_on_by_itself(browser, tmp_path):
    tree = {"gateway": {"port": find_port(), "drain_s": 1}}
    with gateway_process(tmp_path, tree) as (url, first), console_by_hand(url) as address:
        page = await browser.new_page()
        await page.goto(f"{address}/workers")
        count = page.get_by_text("0 of 0 ready")
        await expect(count).to_be_visible(timeout=PATIENCE_MS)
        away = page.get_by_role("alert").filter(has_text="does not answer")
        await expect(away).to_be_hidden()
        first.kill()
        first.wait(60)
        await expect(away).to_be_visible(timeout=PATIENCE_MS)
        with gateway_process(tmp_path, tree):
            await expect(away).to_be_hidden(timeout=PATIENCE_MS)
        await page.close()


@contextmanager
def console_by_hand(url):
    """`radixway console` for that gateway, and where it is."""
    command = [sys.executable, "-m", "radixway", "console", "--gateway", url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield next(line for line in process.stdout if line.startswith("console http")).split()[1]
        finally:
            process.terminate()
