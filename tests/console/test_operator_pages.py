"""*Usage*, *Guard* and *Cache* of a gateway that has tenants, a guard and a cache."""

import re

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import expect

from console.conftest import sign_in
from support.gateway_process import gateway_process

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
KEY, TENANTS_KEY = "the-key-of-admins", "the-key-of-acme"
MODEL = "radixway-guide"


@pytest.fixture(scope="module")
def guarded(live, tmp_path_factory):
    """Its URL: a gateway with a tenant, prices, a guard and a semantic cache."""
    directory = tmp_path_factory.mktemp("guarded")
    tree = {
        "gateway": {"port": 0, "admin_key": KEY, "drain_s": 1},
        "workers": [{"url": url} for url in live.engines],
        "guard": {"pii": {"enabled": True, "action": "block"}},
        "semantic_cache": {"enabled": True},
        "console": {"show_prompts": True},
        "tenants": {
            "acme": {"keys": [{"key": TENANTS_KEY, "user": "anna"}]},
            "pricing": {MODEL: {"prompt_per_1m": 2000.0, "completion_per_1m": 3000.0}},
        },
    }
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def open_guarded(open_page, browser, guarded):
    """`open_page` of that gateway's pages."""
    cookies = await sign_in(browser, guarded, KEY)

    async def open_guarded(path, **options):
        return await open_page(path, url=guarded, cookies=cookies, **options)

    return open_guarded


async def ask(url, text, **headers):
    """The answer's status and body."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 300}
    authorized = {"authorization": f"Bearer {TENANTS_KEY}", **headers}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/v1/chat/completions", json=body, headers=authorized) as answer:
            return answer.status, await answer.text()


async def test_what_was_used_stands_there_with_its_cost(open_guarded, guarded, pictures):
    assert (await ask(guarded, "What is a radix tree?"))[0] == 200
    page = await open_guarded("/usage")
    table = page.get_by_role("table")
    row = table.locator("tbody tr").filter(has_text="acme").filter(has_text=MODEL)
    await expect(row).to_contain_text("USD")
    await expect(page.get_by_role("img", name="Cost by day").locator("svg, canvas").first).to_be_visible()
    await pictures(page, "usage")
    await page.get_by_label("Group by").click()
    await page.get_by_role("option", name="Day").click()
    await page.wait_for_url(re.compile(r"/usage\?days=30&by=tenant,model,day$"))
    await expect(table.get_by_role("columnheader", name="Day")).to_be_visible()
    page = await open_guarded("/usage?days=7&by=day", phone=True, locale="zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("用量")
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_what_the_guard_blocked_is_shown_by_kind_and_in_the_log(open_guarded, guarded, pictures):
    status, body = await ask(guarded, "Write to anna.smith@example.org", **{"x-request-id": "private-1"})
    assert "personally identifiable" in body
    page = await open_guarded("/guard")
    log = page.locator(".rw-table tbody tr").filter(has_text="private-1")
    await expect(log).to_contain_text("block")
    await expect(log).to_contain_text("EMAIL")
    await expect(log).to_contain_text("acme")
    assert "anna.smith" not in await page.content()
    await expect(page.get_by_role("img", name="Found, by kind")).to_contain_text("EMAIL")
    await pictures(page, "guard")
    await page.get_by_label("Rule", exact=True).click()
    await page.get_by_role("option", name="attacks").click()
    await expect(log).to_have_count(0)
    await page.goto(f"{guarded}/console/requests?q=private-1")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="private-1"))
    await expect(row.locator(".rw-chip.bad").first).to_have_text(str(status))
    await expect(row).to_contain_text("personal data: EMAIL")
    page = await open_guarded("/guard", phone=True, locale="zh-CN", dark=True)
    await expect(page.get_by_role("heading", level=1)).to_have_text("防护")
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_kept_answers_are_listed_and_forgotten(open_guarded, guarded, pictures):
    for question in ("What is a KV cache?", "How are prompts tokenized?"):
        assert (await ask(guarded, question))[0] == 200
    page = await open_guarded("/cache")
    rows = page.locator(".rw-table tbody tr")
    first = rows.filter(has_text="What is a KV cache?")
    await expect(first).to_be_visible()
    await expect(page.get_by_text("0.85")).to_be_visible()
    await pictures(page, "cache")
    await first.get_by_role("button", name="Forget").click()
    await expect(first).to_have_count(0)
    await expect(rows.filter(has_text="How are prompts tokenized?")).to_be_visible()
    await page.get_by_role("button", name="Forget all").click()
    question = page.get_by_role("alertdialog")
    await question.get_by_role("button", name="Cancel").click()
    await expect(rows.filter(has_text="How are prompts tokenized?")).to_be_visible()
    await page.get_by_role("button", name="Forget all").click()
    await question.get_by_role("button", name="Forget all").click()
    await expect(page.get_by_text("No answer is cached.")).to_be_visible()
    page = await open_guarded("/cache", phone=True, locale="zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("语义缓存")
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/usage", "Nothing is counted"),
        ("/guard", "no guard and no audit log"),
        ("/cache", "The semantic cache is off"),
    ],
)
async def test_what_is_off_says_how_it_is_turned_on(open_page, path, says):
    page = await open_page(path)
    await expect(page.get_by_text(says)).to_be_visible()
    await expect(page.locator(".rw-code")).to_be_visible()
