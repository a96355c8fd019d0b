"""*Keys* in the browser: made, shown once, used, rotated, blocked, deleted; teams and users likewise."""

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import expect

from console.conftest import sign_in
from support.gateway_process import gateway_process

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
KEY = "the-key-of-admins"
MODEL = "radixway-guide"


@pytest.fixture(scope="module")
def keyed(live, tmp_path_factory):
    """The URL of a gateway that keeps keys."""
    directory = tmp_path_factory.mktemp("keyed")
    tree = {
        "gateway": {"port": 0, "admin_key": KEY, "drain_s": 1},
        "workers": [{"url": url} for url in live.engines],
    }
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def open_keyed(open_page, browser, keyed):
    """`open_page` of that gateway's pages."""
    cookies = await sign_in(browser, keyed, KEY)

    async def open_keyed(path, **options):
        return await open_page(path, url=keyed, cookies=cookies, **options)

    return open_keyed


async def ask(url, key):
    """The status of an answer to `key`."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    headers = {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
            await answer.read()
            return answer.status


async def make_key(url, **fields):
    """A key with `fields`."""
    headers = {"authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/keys", json=fields, headers=headers) as answer:
            return (await answer.json())["key"]


async def read_new_key(page):
    """The key that is shown; it is gone from the page afterwards."""
    text = await page.locator(".rw-secret").inner_text()
    await page.get_by_role("button", name="I have it").click()
    await expect(page.locator(".rw-secret")).to_have_count(0)
    assert text not in await page.content()
    return text


async def test_a_key_is_made_used_rotated_blocked_and_deleted(open_keyed, keyed, pictures):
    page = await open_keyed("/keys")
    await expect(page.get_by_text("There are no keys.")).to_be_visible()
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_label("Name", exact=True).fill("anna's laptop")
    await page.get_by_label("Models, with commas").fill(MODEL)
    await page.get_by_label("Budget: refuse beyond").fill("5")
    await page.get_by_label("Requests per minute").fill("100")
    await page.get_by_label("Budget resets every").fill("now and then")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("a duration like")).to_be_visible()
    await page.get_by_label("Budget resets every").fill("30d")
    await page.get_by_role("button", name="Save").click()
    key = await read_new_key(page)
    row = page.locator(".rw-keys-table tbody tr").filter(has_text="anna's laptop")
    await expect(row).to_contain_text("of 5 USD")
    await expect(row).to_contain_text("every 30d")
    await expect(row).to_contain_text("100 requests/min")
    assert await ask(keyed, key) == 200
    await pictures(page, "keys")

    await row.get_by_role("button", name="Rotate").click()
    question = page.get_by_role("alertdialog")
    await question.get_by_role("button", name="Rotate").click()
    rotated = await read_new_key(page)
    assert rotated != key
    assert [await ask(keyed, each) for each in (rotated, key)] == [200, 200]

    await row.get_by_role("button", name="Block", exact=True).click()
    await question.get_by_role("button", name="Block").click()
    await expect(row).to_contain_text("blocked")
    assert await ask(keyed, rotated) in (401, 403)
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_contain_text("active")
    assert await ask(keyed, rotated) == 200

    await row.get_by_role("button", name="Edit").click()
    await expect(page.get_by_label("Name", exact=True)).to_have_value("anna's laptop")
    await page.get_by_label("Requests per minute").fill("")
    await page.get_by_label("Models, with commas").fill("another-model")
    await page.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("another-model")
    await expect(row).not_to_contain_text("requests/min")
    assert await ask(keyed, rotated) in (403, 404)

    await row.get_by_role("button", name="Delete").click()
    await question.get_by_role("button", name="Delete").click()
    await expect(row).to_have_count(0)
    assert await ask(keyed, rotated) == 401


async def test_a_team_and_a_user_are_made_changed_blocked_and_deleted(open_keyed, keyed, pictures):
    page = await open_keyed("/keys")
    await page.get_by_role("link", name="Users").click()
    await page.get_by_role("button", name="Create a user").click()
    await page.get_by_label("Id").fill("anna")
    await page.get_by_label("E-mail").fill("anna@example.org")
    await page.get_by_role("button", name="Save").click()
    row = page.locator(".rw-keys-table tbody tr")
    await expect(row).to_contain_text("anna@example.org")
    await page.get_by_role("link", name="Teams").click()
    await page.wait_for_url("**/console/teams")
    await page.get_by_role("button", name="Create a team").dblclick()
    await page.get_by_label("Id").fill("not a tenant's name")
    await page.get_by_label("Members, with commas").fill("anna, ben")
    await page.get_by_label("Models, with commas").fill(MODEL)
    await page.get_by_label("Budget: refuse beyond").fill("0")
    await page.get_by_label("Budget: alert beyond").fill("300")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert").filter(has_text="id:")).to_be_visible()
    await page.get_by_label("Id").fill("research")
    await page.get_by_role("button", name="Save").dblclick()
    await expect(row).to_contain_text("of 0 USD")
    await expect(row).to_contain_text("anna, ben")
    await expect(row).to_contain_text("alert beyond 300")
    key = await make_key(keyed, team="research", user="anna", alias="of-a-team")
    assert await ask(keyed, key) == 429, "nothing may be spent"

    await row.get_by_role("button", name="Edit").click()
    await page.get_by_label("Budget: refuse beyond").fill("400")
    await page.get_by_label("Members, with commas").fill("anna")
    await page.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("of 400 USD")
    await expect(row).not_to_contain_text("ben")
    await expect(row).to_contain_text("1")
    assert await ask(keyed, key) == 200
    await pictures(page, "teams")

    await row.get_by_role("button", name="Block", exact=True).click()
    question = page.get_by_role("alertdialog")
    await question.get_by_role("button", name="Block").click()
    await expect(row).to_contain_text("blocked")
    assert await ask(keyed, key) in (401, 403)
    await row.get_by_role("button", name="Unblock").click()
    await expect(row).to_contain_text("active")
    await row.get_by_role("button", name="Delete").dblclick()
    await expect(question).to_contain_text("Keys deleted with it: 1.")
    await question.get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("There are no teams.")).to_be_visible()
    assert await ask(keyed, key) == 401
    await page.go_back()
    await expect(row).to_contain_text("anna@example.org")
    await page.get_by_label("Search by").fill("nobody")
    await expect(page.get_by_text("There are no users.")).to_be_visible()
    await page.get_by_label("Search by").fill("EXAMPLE.org")
    await row.get_by_role("button", name="Delete").click()
    await question.get_by_role("button", name="Delete").click()
    await expect(row).to_have_count(0)


@pytest.mark.parametrize(("path", "title"), [("/keys", "密钥"), ("/teams", "团队"), ("/users", "用户")])
async def test_in_chinese_and_on_a_phone(open_keyed, path, title):
    page = await open_keyed(path, phone=True, locale="zh-CN", dark=True)
    await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
