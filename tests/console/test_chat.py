"""Chats, in the browser."""

import json
from contextlib import asynccontextmanager
from itertools import cycle

import pytest
from aiohttp import ClientSession
from playwright.async_api import expect

from support.held_socket import HeldSocket
from support.scripted_worker import scripted_worker

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def say(page, text):
    await page.get_by_label("Type a message").fill(text)
    await page.get_by_label("Type a message").press("Enter")


async def ramble(page):
    """A model that is drawn from so wildly hardly ever comes to an end by itself."""
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Temperature").fill("5")
    await page.get_by_label("Max tokens").fill("1500")


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
    await answer.get_by_role("button", name="Regenerate").dblclick()
    await expect(answer).to_have_attribute("data-state", "complete")
    await expect(answer.get_by_text("2/2")).to_be_visible()
    await expect(answer.locator(".rw-markdown")).to_contain_text("tree")
    await pictures(page, "chat")
    await answer.get_by_role("button", name="Branch before").click()
    await expect(answer.get_by_text("1/2")).to_be_visible()
    await expect(answer.get_by_text("Stopped")).to_be_visible()
    await answer.get_by_role("button", name="Next branch").click()
    await expect(answer.get_by_text("2/2")).to_be_visible()


async def test_what_is_typed_while_a_question_is_sent_is_kept(open_page, live):
    socket = HeldSocket()
    page = await open_page("/chat", before=socket.attach)
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Max tokens").fill("8")
    text = page.get_by_label("Type a message")
    await text.click()
    await page.keyboard.type("What is a radix tree?")
    socket.hold("")
    await page.keyboard.press("Enter")
    await socket.arrived()
    await page.keyboard.type("And what is a KV cache?")
    async with page.expect_event("framenavigated"):
        socket.release()
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await expect(text).to_have_value("And what is a KV cache?")
    await text.press("Enter")
    await expect(page.locator("article.answer")).to_have_count(2)
    await expect(text).to_have_value("")
    questions = page.locator("article:not(.answer)")
    await expect(questions.first).to_contain_text("What is a radix tree?")
    await expect(questions.last).to_contain_text("And what is a KV cache?")


async def test_a_question_that_is_not_taken_is_back_in_the_field(open_page, live):
    page, other = await open_page("/chat"), await open_page("/chat")
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Max tokens").fill("8")
    await say(page, "What is a radix tree?")
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await other.goto(page.url)
    await other.get_by_role("button", name="Delete").click()
    await other.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    await other.wait_for_url(f"{live.url}/console/chat")
    await say(page, "And what is a KV cache?")
    await expect(page.locator(".q-notification")).to_be_visible()
    await expect(page.get_by_label("Type a message")).to_have_value("And what is a KV cache?")


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
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_role("dialog").get_by_label("Rename").fill("Of attention")
    await page.get_by_role("dialog").get_by_role("button", name="OK").click()
    chats = page.get_by_role("navigation", name="Chats")
    await expect(chats.get_by_text("Of attention")).to_be_visible()
    await page.get_by_label("Search chats").fill("paged attention")
    await expect(chats.get_by_text("Of attention").first).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    await page.wait_for_url(f"{live.url}/console/chat")
    await expect(chats.get_by_text("Of attention")).to_have_count(0)


HOSTILE = """Here: <img src=x onerror="window.hacked=1"><script>window.hacked=1</script>
[press](javascript:window.hacked=1) <div style="position:fixed;inset:0;z-index:9999">over it all</div>

```python
print(6 * 7)
```
"""


@asynccontextmanager
async def worker_that_says(live, *answers):
    """One more worker with the model `scripted`, which says these in turn, however often it is asked."""
    left = cycle(answers)

    async def say(exchange):
        delta = {"role": "assistant", "content": next(left)}
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
        await exchange.begin_stream()
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n")
        await exchange.end_stream()

    headers = {"authorization": f"Bearer {live.key}"}
    async with scripted_worker(say, models=["scripted"]) as worker, ClientSession(headers=headers) as calls:
        async with calls.post(f"{live.url}/add_worker", json={"url": worker.url}) as answer:
            assert answer.status == 200
        yield
        async with calls.post(f"{live.url}/remove_worker", json={"url": worker.url}) as answer:
            assert answer.status == 200


async def choose(page, label, option):
    await page.get_by_label(label).click()
    await page.get_by_role("option", name=option).click()
    await page.keyboard.press("Escape")


async def test_a_plugin_is_chosen_and_its_steps_are_shown(open_page, live, pictures):
    thinks = 'Thought: I calculate\nAction: calculate\nAction Input: {"expression": "6 * 7"}\n'
    async with worker_that_says(live, thinks, "Thought: I know\nOpen Assistant: It is **42**."):
        page = await open_page("/chat", dark=True)
        await page.get_by_text("Answer options").click()
        await choose(page, "Model", "scripted")
        await choose(page, "Plugins", "Calculator")
        await say(page, "<b>How much</b> is 6 times 7?")
        await expect(page.locator("article.question")).to_contain_text("<b>How much</b>")  # as it was written
        answer = page.locator("article.answer")
        await expect(answer).to_have_attribute("data-state", "complete")
        await expect(answer.locator("strong")).to_have_text("42")
        await answer.get_by_text("Used").click()
        await expect(answer.locator(".rw-step")).to_contain_text("6 * 7")
        await expect(answer.locator(".rw-step")).to_contain_text("42")
        await pictures(page, "chat-plugin")


async def test_what_a_model_writes_is_markdown_and_does_nothing(open_page, live):
    async with worker_that_says(live, HOSTILE):
        page = await open_page("/chat")
        await page.get_by_text("Answer options").click()
        await choose(page, "Model", "scripted")
        await say(page, "Do your worst.")
        answer = page.locator("article.answer")
        await expect(answer).to_have_attribute("data-state", "complete")
        await expect(answer.locator("pre code")).to_contain_text("print")
        await expect(answer).to_contain_text("<img src=x")  # as it was written
        assert await answer.locator("script, img, form, [onerror], a[href^='javascript']").count() == 0
        assert await page.evaluate("() => window.hacked") is None
        await page.get_by_label("Type a message").click()  # nothing lies over it


async def test_a_phone_shows_the_chat_or_the_list(open_page):
    page = await open_page("/chat", phone=True)
    await expect(page.get_by_label("Type a message")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Chats")).to_be_hidden()
    await page.locator(".rw-back").click()
    await expect(page.get_by_role("navigation", name="Chats")).to_be_visible()


def pdf_of(text):
    """A document of one page, with that text on it."""
    stream = f"BT /F1 18 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    document, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    at = len(document)
    document += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % o for o in offsets)
    return document + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % at


async def attach(page, name, content):
    """Choose a file, as the dialog of the browser's does."""
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Attach text or PDF files").click()
    await (await chooser.value).set_files([file])


async def test_attached_files_are_put_into_the_message(open_page, pictures):
    page = await open_page("/chat")
    await expect(page.get_by_role("combobox", name="Model")).to_be_visible()
    await attach(page, "notes.txt", b"A radix tree keeps prefixes.")
    attached = page.locator("#rw-attached")
    await expect(attached).to_contain_text("notes.txt: 28 characters")
    await attach(page, "paper.pdf", pdf_of("Prefixes are read again"))
    await expect(attached).to_contain_text("paper.pdf: 23 characters")
    await attach(page, "picture.png", b"\x89PNG\r\n\x1a\n\xff\xfe")
    await expect(page.get_by_text("picture.png is neither UTF-8 text nor a PDF")).to_be_visible()
    await attach(page, "long.txt", b"x" * 30_000)
    await expect(page.get_by_text("Only the beginning of long.txt")).to_be_visible()
    await expect(attached).to_contain_text("long.txt: the first 19,949 characters")
    await attach(page, "more.txt", b"too late")
    await expect(page.get_by_text("more.txt is not attached")).to_be_visible()
    await attached.get_by_role("button").nth(2).click()
    await expect(attached).not_to_contain_text("long.txt")
    await pictures(page, "chat-attachments")
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Max tokens").fill("8")
    await say(page, "What do these say?")
    question = page.locator("article.question")
    await expect(question).to_contain_text("A radix tree keeps prefixes.")
    await expect(question).to_contain_text("Prefixes are read again")
    await expect(question).to_contain_text("What do these say?")
    await expect(question).to_contain_text(" UTC")
    await expect(attached).to_be_empty()
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")


async def test_files_over_a_slow_line_are_attached_together_and_sent_without_words(open_page):
    page = await open_page("/chat")
    line = await page.context.new_cdp_session(page)
    slow = {"offline": False, "latency": 20, "downloadThroughput": -1, "uploadThroughput": 60_000}
    await line.send("Network.emulateNetworkConditions", slow)
    contents = {"first.txt": b"one", "long.txt": b"three " * 20_000, "second.txt": b"two"}
    files = [{"name": name, "mimeType": "text/plain", "buffer": raw} for name, raw in contents.items()]
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Attach text or PDF files").click()
    await (await chooser.value).set_files(files)
    attached = page.locator("#rw-attached")
    for name in contents:
        await expect(attached).to_contain_text(name)
    await attached.get_by_role("button", name="Remove this file").last.click()
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Max tokens").fill("8")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("article.question")).to_contain_text("[/second.txt]")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await expect(page.locator("article.question")).to_have_count(1)


async def test_a_chat_is_shared_read_without_signing_in_and_taken_back(open_page, browser, live, pictures):
    page = await open_page("/chat")
    await page.get_by_text("Answer options").click()
    await page.get_by_label("Max tokens").fill("8")
    await say(page, "What is <b>shared</b>?")
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="Create a link").click()
    link = await page.get_by_label("The link; it is shown once").input_value()
    assert link.startswith(f"{live.url}/v1/chats/shared/")
    await pictures(page, "chat-share")
    context = await browser.new_context(locale="zh-CN")
    stranger = await context.new_page()
    await stranger.goto(link)
    await expect(stranger.locator("article.user")).to_contain_text("What is <b>shared</b>?")
    await expect(stranger.locator("article.assistant p")).not_to_be_empty()
    await expect(stranger.get_by_text("分享于")).to_be_visible()
    await page.get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
    assert (await stranger.reload()).status == 404
    await context.close()


async def test_a_text_that_cannot_be_sent_stays_where_it_was_typed(open_page):
    page = await open_page("/chat")
    box = page.get_by_label("Type a message")
    text = "word " * 200_001
    await box.fill(text)
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("#too_long_message_popup")).to_be_visible()
    assert await box.input_value() == text
    await box.fill("What is a radix tree?")
    await page.context.set_offline(True)
    await expect(page.locator("#popup")).to_be_visible()
    await box.press("Enter")
    assert await box.input_value() == "What is a radix tree?"
    await page.context.set_offline(False)
    await expect(page.locator("#popup")).to_be_hidden()
    await box.press("Enter")
    await expect(page.locator("article.answer")).to_have_attribute("data-state", "complete")
    await expect(page.locator("article")).to_have_count(2)
