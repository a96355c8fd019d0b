"""The playground, in the browser."""

import pytest
from playwright.async_api import expect

from support.held_socket import HeldSocket

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
PROMPT = "What is a radix tree? Write to anna@example.org about the proof."


async def test_a_prompt_is_looked_at_and_nobody_is_asked(open_page, live, pictures):
    page = await open_page("/playground")
    await page.get_by_label("Prompt", exact=True).fill(PROMPT)
    await page.get_by_role("button", name="Look").click()
    main = page.locator("#rw-main")
    await expect(main.get_by_text("Would go to")).to_be_visible()
    await expect(main.get_by_text("Category: math")).to_be_visible()
    await expect(main.locator("mark")).to_contain_text("anna@example.org")
    await expect(main.locator("mark")).to_contain_text("EMAIL_ADDRESS")
    await expect(main.get_by_role("cell", name="keyword:math").first).to_be_visible()
    chosen = main.locator("tr.rw-chosen td").first
    assert (await chosen.inner_text()).strip() in {url.removeprefix("http://") for url in live.engines}
    await pictures(page, "playground-look")


async def at_length(page, tokens):
    """The answer is to go on for so many tokens, whatever is said; drawn wildly, all of them are words."""
    await page.get_by_label("Temperature").fill("5")
    await page.get_by_label("Max tokens").fill(str(tokens))
    await page.get_by_text("Tools and other fields").click()
    await page.get_by_label("Other fields (JSON object)").fill('{"ignore_eos": true}')


async def test_a_prompt_is_answered_word_by_word_and_explained(open_page, pictures):
    page = await open_page("/playground")
    await page.get_by_label("Prompt", exact=True).fill("What is a radix tree?")
    await at_length(page, 600)
    await page.evaluate(
        """() => {
            window.lengths = new Set();
            new MutationObserver(() => {
                const said = document.querySelector(".rw-answer");
                if (said && said.textContent) window.lengths.add(said.textContent.length);
            }).observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    await page.get_by_role("button", name="Run").click()
    main = page.locator("#rw-main")
    await expect(main.get_by_role("link", name="This request")).to_be_visible()
    assert await page.evaluate("() => window.lengths.size") > 2  # it grew while one watched
    await page.get_by_label("Temperature").fill("0")
    await page.get_by_label("Other fields (JSON object)").fill("")
    await page.get_by_role("button", name="Run").click()
    await expect(main.locator(".rw-answer")).to_contain_text("shared prefixes")
    await expect(main.get_by_text("Tokens per second")).to_be_visible()
    await expect(main.get_by_text("First token", exact=True).first).to_be_visible()
    await expect(main.get_by_role("heading", name="Worker")).to_be_visible()
    await pictures(page, "playground-run")


async def test_an_answer_is_stopped_and_what_was_said_stays(open_page):
    page = await open_page("/playground")
    await page.get_by_label("Prompt", exact=True).fill("Tell me all about KV caches, at length.")
    await at_length(page, 2000)
    await page.get_by_role("button", name="Run").click()
    answer = page.locator(".rw-answer")
    await expect(answer).not_to_be_empty()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("Stopped")).to_be_visible()
    await expect(answer).not_to_be_empty()
    await expect(page.get_by_role("heading", name="Worker")).to_be_visible()


async def test_markup_in_a_prompt_stays_text_and_wrong_fields_are_told(open_page):
    page = await open_page("/playground")
    await page.get_by_label("Prompt", exact=True).fill("<img src=x onerror='window.hacked=1'> a proof")
    await page.get_by_role("button", name="Look").click()
    await expect(page.locator(".rw-marked")).to_contain_text("<img src=x")
    assert await page.evaluate("() => window.hacked") is None
    await page.get_by_text("Tools and other fields").click()
    await page.get_by_label("Tools (JSON list)").fill("{")
    await page.get_by_role("button", name="Look").click()
    await expect(page.get_by_text("Tools (JSON list):")).to_be_visible()


async def test_what_is_typed_while_an_answer_comes_is_kept(open_page):
    socket = HeldSocket()
    page = await open_page("/playground", before=socket.attach)
    prompt = page.get_by_label("Prompt", exact=True)
    await prompt.click()
    await page.keyboard.type("What is a radix tree?")
    socket.hold("")
    await page.get_by_role("button", name="Run").click()
    await socket.arrived()
    await prompt.focus()
    await page.keyboard.press("Control+End")
    more = " ".join(f"word{number}" for number in range(60))
    await page.keyboard.type(more)
    socket.release()
    await expect(page.get_by_role("link", name="This request")).to_be_visible()
    await expect(prompt).to_have_value(f"What is a radix tree?{more}")
