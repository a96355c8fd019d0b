"""Chats, in the browser."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def say(page, text):
    await page.get_by_label("Say something").fill(text)
    await page.get_by_label("Say something").press("Enter")


async def ramble(page):
    """A model that is drawn from so wildly hardly ever comes to an end by itself."""
    await page.get_by_text("How it is answered").click()
    await page.get_by_label("Temperature").fill("5")
    await page.get_by_label("Most tokens").fill("1500")


async def test_a_chat_with_a_stop_a_regenerate_and_branches(open_page, live, pictures):
    page = await open_page("/chat")
    await ramble(page)
    await say(page, "What is a radix tree?")
    await page.wait_for_url(f"{live.url}/console/chat/*")
    answer = page.locator("article.answer")
    await expect(answer.locator(".rw-markdown")).not_to_be_empty()
    await page.get_by_role("button", name="Stop").click()
    await expect(answer.get_by_text("Stopped")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    said = await answer.locator(".rw-markdown").inner_text()
    assert said.strip()
    await page.get_by_label("Temperature").fill("0")
    await answer.get_by_role("button", name="Regenerate").click()
    await expect(answer).to_have_attribute("data-state", "complete")
    await expect(answer.get_by_text("2/2")).to_be_visible()
    await expect(answer.locator(".rw-markdown")).to_contain_text("tree")
    await pictures(page, "chat")
    await answer.get_by_role("button", name="Branch before").click()
    await expect(answer.get_by_text("1/2")).to_be_visible()
    await expect(answer.get_by_text("Stopped")).to_be_visible()
    await answer.get_by_role("button", name="Next branch").click()
    await expect(answer.get_by_text("2/2")).to_be_visible()


async def test_an_answer_goes_on_while_the_page_is_loaded_anew(open_page, live):
    page = await open_page("/chat")
    await ramble(page)
    await say(page, "Tell me about KV caches.")
    await page.wait_for_url(f"{live.url}/console/chat/*")
    answer = page.locator("article.answer")
    await expect(answer.locator(".rw-markdown")).not_to_be_empty()
    before = (await answer.locator(".rw-markdown").inner_text()).strip()[:20]
    await page.reload()
    await expect(answer.locator(".rw-markdown")).to_contain_text(before.split()[0])
    await expect(answer).not_to_have_attribute("data-state", "pending")
    stop = page.get_by_role("button", name="Stop")
    if await stop.is_visible():
        await stop.click()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_a_question_is_edited_an_answer_judged_and_the_chat_renamed_found_and_deleted(open_page, live):
    page = await open_page("/chat")
    await say(page, "What is prefix caching?")
    answer, question = page.locator("article.answer"), page.locator("article.question")
    await expect(answer).to_have_attribute("data-state", "complete")
    await question.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Edit").fill("What is paged attention?")
    await dialog.get_by_role("button", name="OK").click()
    await expect(question).to_contain_text("What is paged attention?")
    await expect(question.get_by_text("2/2")).to_be_visible()
    await expect(answer).to_have_attribute("data-state", "complete")
    await answer.get_by_role("button", name="Good answer").click()
    await expect(answer.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    await answer.get_by_role("button", name="Comment on this answer").click()
    await page.get_by_role("dialog").get_by_label("Comment on this answer").fill("To the point.")
    await page.get_by_role("dialog").get_by_role("button", name="OK").click()
    await expect(page.get_by_text("Noted.")).to_be_visible()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Rename").fill("Of attention")
    await page.get_by_role("dialog").get_by_role("button", name="OK").click()
    chats = page.get_by_role("navigation", name="Chats")
    await expect(chats.get_by_text("Of attention")).to_be_visible()
    await page.get_by_label("Search what was said").fill("paged attention")
    await expect(chats.get_by_text("Of attention").first).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    await page.wait_for_url(f"{live.url}/console/chat")
    await expect(chats.get_by_text("Of attention")).to_have_count(0)


async def test_a_plugin_is_chosen_and_what_it_did_is_shown(open_page, pictures):
    page = await open_page("/chat", dark=True)
    await page.get_by_text("How it is answered").click()
    await page.get_by_label("Plugins").click()
    await page.get_by_role("option", name="Calculator").click()
    await page.keyboard.press("Escape")
    await say(page, "<b>How much</b> is 2+2?")
    question = page.locator("article.question")
    await expect(question).to_contain_text("<b>How much</b>")  # as it was written
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await pictures(page, "chat-plugin")


async def test_a_phone_shows_the_chat_or_the_list(open_page):
    page = await open_page("/chat", phone=True)
    await expect(page.get_by_label("Say something")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Chats")).to_be_hidden()
    await page.locator(".rw-back").click()
    await expect(page.get_by_role("navigation", name="Chats")).to_be_visible()
