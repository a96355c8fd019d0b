"""A gateway without keys and rules: visitors from its own machine are let in, and told what there is not."""

import pytest
from playwright.async_api import expect

from support.gateway_process import gateway_process

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def bare(live, tmp_path_factory):
    """Its URL; one of the live gateway's engines answers."""
    directory = tmp_path_factory.mktemp("bare")
    tree = {"gateway": {"port": 0, "drain_s": 1}, "workers": [{"url": live.engines[0]}]}
    with gateway_process(directory, tree, home=directory / "home") as (url, _):
        yield url


async def test_chats_are_the_operators_and_rules_are_not_there(open_page, bare):
    page = await open_page("/chat", url=bare)
    await page.get_by_label("Type a message").fill("What is a radix tree?")
    await page.get_by_label("Type a message").press("Enter")
    answer = page.locator("article.answer")
    await expect(answer).to_have_attribute("data-state", "complete")
    await expect(answer).to_contain_text("tree")
    await page.reload()
    await expect(answer).to_contain_text("tree")
    await page.goto(f"{bare}/console/rules")
    await expect(page.get_by_text("Name a rules file")).to_be_visible()
    await page.goto(f"{bare}/console/playground")
    await page.get_by_label("Prompt", exact=True).fill("What is a radix tree?")
    await page.get_by_role("button", name="Look").click()
    await expect(page.get_by_text("Would go to")).to_be_visible()
    await expect(page.get_by_text("No rules judged it")).to_be_visible()
