"""*Workers*, driven in the browser against a live gateway with two engines."""

import aiohttp
import pytest
from playwright.async_api import expect

from support.scripted_worker import scripted_worker

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def listed(live):
    async with aiohttp.ClientSession() as client, client.get(f"{live.url}/list_workers") as answer:
        return {worker["url"]: worker for worker in (await answer.json())["workers"]}


def row_of(page, url):
    return page.get_by_role("row").filter(has_text=url.removeprefix("http://"))


async def test_both_engines_are_shown_as_they_are(live, open_page, pictures):
    page = await open_page("/workers")
    for url in live.engines:
        await expect(row_of(page, url)).to_contain_text("Ready")
        await expect(row_of(page, url)).to_contain_text("radixway-guide")
    await pictures(page, "workers")


async def test_a_worker_is_added_drained_resumed_and_removed(live, open_page, pictures):
    async with scripted_worker(models=["scripted"]) as worker:
        page = await open_page("/workers")
        await page.get_by_role("button", name="Add worker").click()
        await page.get_by_label("Address").fill(worker.url)
        await page.get_by_role("button", name="Add", exact=True).click()
        row = row_of(page, worker.url)
        await expect(row).to_contain_text("Ready")
        assert (await listed(live))[worker.url]["models"] == ["scripted"]

        await row.get_by_role("button").click()
        await pictures(page, "worker")
        await page.get_by_role("button", name="Drain").click()
        await page.get_by_role("alertdialog").get_by_role("button", name="Drain").click()
        await expect(row).to_contain_text("Draining")
        assert (await listed(live))[worker.url]["state"] == "draining"

        await page.get_by_role("button", name="Undo").click()
        await expect(row).to_contain_text("Ready")
        assert (await listed(live))[worker.url]["state"] == "ready"

        await page.get_by_role("button", name="Remove").click()
        await page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
        await expect(row).to_have_count(0)
        assert worker.url not in await listed(live)


async def test_a_worker_of_the_configuration_is_resumed_and_stays_the_configurations(live, open_page):
    url = live.engines[1]
    page = await open_page("/workers")
    await row_of(page, url).get_by_role("button").click()
    await page.get_by_role("button", name="Drain").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Drain").click()
    await page.get_by_role("button", name="Resume").click()
    await expect(row_of(page, url)).to_contain_text("Ready")
    assert (await listed(live))[url]["sources"] == ["config"]


async def test_who_cancels_changes_nothing(live, open_page):
    page = await open_page("/workers")
    await row_of(page, live.engines[0]).get_by_role("button").click()
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("alertdialog")).to_have_count(0)
    assert (await listed(live))[live.engines[0]]["state"] == "ready"


async def test_what_is_wrong_with_an_address_is_said_at_its_field(open_page):
    page = await open_page("/workers")
    await page.get_by_role("button", name="Add worker").click()
    await page.get_by_label("Address").fill("gpu3")
    await page.get_by_label("Address").press("Enter")
    await expect(page.get_by_text("must be http(s)://host")).to_be_visible()


async def test_what_a_worker_calls_itself_is_text_and_no_markup(live, open_page):
    name = "<img src=x onerror=\"document.body.dataset.hit='1'\">${1}`{{1+1}}"
    async with scripted_worker(models=[name]) as worker, aiohttp.ClientSession() as client:
        headers = {"authorization": f"Bearer {live.key}"}
        async with client.post(f"{live.url}/add_worker", json={"url": worker.url}, headers=headers) as added:
            assert added.status == 200
        page = await open_page("/workers")
        row = row_of(page, worker.url)
        await expect(row).to_contain_text(name)
        await row.get_by_role("button").click()
        await expect(page.get_by_role("dialog").get_by_text(name)).to_be_visible()
        assert await page.evaluate("document.body.dataset.hit") is None
        async with client.post(f"{live.url}/remove_worker", json={"url": worker.url}, headers=headers):
            pass


async def test_the_search_and_the_state_narrow_the_list(live, open_page):
    page = await open_page("/workers")
    await expect(row_of(page, live.engines[1])).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type(live.engines[0].removeprefix("http://"))
    await expect(row_of(page, live.engines[1])).to_have_count(0)
    await expect(row_of(page, live.engines[0])).to_be_visible()


async def test_on_a_phone_rows_are_cards_and_the_navigation_a_drawer(live, open_page):
    page = await open_page("/workers", phone=True)
    await expect(row_of(page, live.engines[0])).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    link = page.get_by_role("link", name="Live")
    await expect(link).not_to_be_in_viewport()
    await page.get_by_role("button", name="Menu").click()
    await expect(link).to_be_in_viewport()


async def test_a_worker_that_cannot_be_reached_says_why(live, open_page):
    url = "http://no-such-host.invalid:8000"
    headers = {"authorization": f"Bearer {live.key}"}
    async with aiohttp.ClientSession(headers=headers) as client:
        async with client.post(f"{live.url}/add_worker", params={"url": url}) as answer:
            assert answer.status == 200
        try:
            page = await open_page("/workers")
            row = row_of(page, url)
            await expect(row.locator(".rw-trouble-line")).to_contain_text("known")
            why = (await listed(live))[url]["last_error"]
            await row.get_by_role("button").click()
            await expect(page.locator(".rw-facts")).to_contain_text(why)
        finally:
            await client.post(f"{live.url}/remove_worker", params={"url": url})
