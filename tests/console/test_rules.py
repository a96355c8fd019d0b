"""Rules, in the browser."""

import asyncio

import aiohttp
import pytest
from playwright.async_api import expect

from support.held_socket import HeldSocket
from support.maths_rules import RULES

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
BLOCKING = "regex_rules:\n  - {name: secret, pattern: 'project-zeus', action: block, message: not here}\n"


async def write(page, text):
    """Replace the whole text, as somebody who pastes does."""
    code = page.locator(".cm-content")
    await code.click()
    await page.keyboard.press("Control+A")
    await page.keyboard.insert_text(text)


async def written(page):
    """What stands in the editor, of which a page shows only what is in sight."""
    return await page.locator(".rw-editor").evaluate(
        "e => getElement(e.id.slice(1)).editor.state.doc.toString()"
    )


async def cursor(page):
    return await page.locator(".rw-editor").evaluate(
        "e => getElement(e.id.slice(1)).editor.state.selection.main.head"
    )


async def ask(live, text):
    body = {"model": "auto", "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{live.url}/v1/chat/completions", json=body) as answer:
            return answer.status


@pytest.fixture
async def rules(live):
    """The file as it was before, afterwards."""
    yield live.rules
    live.rules.write_text(RULES)
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {live.key}"}) as session:
        await session.post(f"{live.url}/config/semantic/reload")


async def test_a_mistake_is_refused_with_its_line(open_page, rules, pictures):
    page = await open_page("/rules")
    await write(page, RULES + "shiped_prompts: true\n")
    mistakes = page.locator("#rw-mistakes")
    line = RULES.count("\n") + 1
    await expect(mistakes.get_by_text(f"Line {line}")).to_be_visible()
    await expect(mistakes.get_by_text("there is no such key")).to_be_visible()
    await expect(page.locator(".cm-line.rw-bad-line")).to_have_text("shiped_prompts: true")
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    assert await asyncio.to_thread(rules.read_text) == RULES
    await pictures(page, "rules-mistake")


async def test_rules_are_tried_applied_take_effect_and_are_taken_back(open_page, live, rules, pictures):
    assert await ask(live, "What of project-zeus?") == 200
    page = await open_page("/rules")
    await write(page, RULES + BLOCKING)
    await expect(page.get_by_text("No mistakes.")).to_be_visible()
    await expect(page.locator("#rw-difference .rw-added")).to_have_count(2)
    await page.get_by_label("Prompts, one a line").fill("What of project-zeus?\nWhat is a proof?")
    await page.get_by_role("button", name="Try").click()
    trial = page.locator("#rw-trial")
    await expect(trial.locator("tr.rw-chosen")).to_contain_text("blocked by secret")
    await expect(trial.get_by_text("unknown", exact=False).first).to_be_visible()
    await pictures(page, "rules-trial")
    await page.get_by_role("button", name="Apply").dblclick()
    await expect(page.get_by_text("is in force.")).to_be_visible()
    await expect(page.locator(".q-notification")).to_have_count(1)
    assert await ask(live, "What of project-zeus?") == 403
    assert await asyncio.to_thread(rules.read_text) == RULES + BLOCKING
    await page.get_by_role("button", name="Roll back").first.click()
    question = page.get_by_role("alertdialog")
    await expect(question).to_contain_text("replaces the rules in force")
    assert await asyncio.to_thread(rules.read_text) == RULES + BLOCKING
    await question.get_by_role("button", name="Roll back").click()
    await expect(page.locator(".cm-content")).not_to_contain_text("project-zeus")
    assert await ask(live, "What of project-zeus?") == 200


async def test_whoever_comes_second_writes_nothing_and_is_told(open_page, rules):
    page = await open_page("/rules")
    await write(page, RULES + "# mine\n")
    await expect(page.get_by_text("No mistakes.")).to_be_visible()
    await asyncio.to_thread(rules.write_text, RULES + "# theirs\n")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("has been changed meanwhile")).to_be_visible()
    assert await asyncio.to_thread(rules.read_text) == RULES + "# theirs\n"


async def test_what_is_applied_is_what_is_seen(open_page, rules):
    socket = HeldSocket()
    page = await open_page("/rules", before=socket.attach)
    await write(page, RULES + "# mine\n")
    discard = page.get_by_role("button", name="Discard")
    await expect(page.get_by_text("No mistakes.")).to_be_visible()
    socket.hold("setEditorValue")
    await discard.click()
    await (
        socket.arrived()
    )  # the text of the file is on its way to the page, and nothing can be typed into the old
    await expect(page.locator(".cm-content")).to_have_attribute("contenteditable", "false")
    socket.release()
    await expect(page.locator(".cm-content")).to_have_attribute("contenteditable", "true")
    assert await written(page) == RULES
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("# and mine 🙂")
    await expect(page.locator("#rw-difference .rw-added")).to_have_text("+# and mine 🙂")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("is in force.")).to_be_visible()
    assert await asyncio.to_thread(rules.read_text) == await written(page) == RULES + "# and mine 🙂"


async def test_edits_are_not_left_without_a_question(open_page, rules):
    page = await open_page("/rules")
    questions = []

    async def stay(dialog):
        questions.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    await write(page, RULES + "# mine\n")
    async with page.expect_event("dialog"):
        await page.get_by_role("link", name="Workers").click(no_wait_after=True)
    assert await written(page) == RULES + "# mine\n"
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("is in force.")).to_be_visible()
    await page.get_by_role("link", name="Workers").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    assert questions == ["beforeunload"]


async def test_a_rollback_asks_before_it_drops_edits(open_page, rules):
    page = await open_page("/rules")
    await write(page, RULES + "# applied\n")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_text("is in force.")).to_be_visible()
    await write(page, RULES + "# mine\n")
    await page.get_by_role("button", name="Roll back").first.click()
    question = page.get_by_role("alertdialog")
    await expect(question).to_contain_text("discard your edits")
    await question.get_by_role("button", name="Cancel").click()
    await expect(question).to_be_hidden()
    assert await written(page) == RULES + "# mine\n"
    assert await asyncio.to_thread(rules.read_text) == RULES + "# applied\n"
    await page.get_by_role("button", name="Roll back").first.click()
    await question.get_by_role("button", name="Roll back").click()
    await expect(page.locator(".cm-content")).not_to_contain_text("# mine")
    assert await written(page) == await asyncio.to_thread(rules.read_text) == RULES


async def test_in_chinese_and_on_a_phone(open_page):
    page = await open_page("/rules", phone=True, locale="zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("规则")
    await expect(page.locator(".cm-content")).to_contain_text("default_model")
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


COMMENT = "# " + "".join(f"word{number} " for number in range(20))


async def test_what_is_typed_while_a_check_comes_back_is_kept(open_page, rules):
    socket = HeldSocket()
    page = await open_page("/rules", before=socket.attach)
    await write(page, RULES + "shiped_prompts: true\n")
    await expect(page.locator("#rw-mistakes")).to_contain_text("there is no such key")
    for number in range(3):
        socket.hold("rw-bad-line")
        await page.keyboard.type(f"# {number} ")
        await socket.arrived()  # the check's outcome is on its way to the page, which is typed in
        await page.keyboard.type(COMMENT)
        socket.release()
    await page.keyboard.type("end")
    text = RULES + "shiped_prompts: true\n" + "".join(f"# {number} {COMMENT}" for number in range(3)) + "end"
    await expect(page.locator("#rw-difference")).to_contain_text("word19 end")
    assert await written(page) == text
    assert await cursor(page) == len(text)


LINES = (
    "regex_rules:",
    "  - name: secret",
    "    pattern: 'project-zeus'",
    "    action: block",
    "    message: not here",
    "# the end",
)


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
async def test_lines_stand_there_as_they_were_typed(open_page, rules, phone):
    agent = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Mobile"
    page = await open_page("/rules", phone=phone, user_agent=agent if phone else None)
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    for line in LINES:
        await page.keyboard.type(line, delay=80)
        await page.keyboard.press("Enter")
    await expect(page.locator("#rw-difference .rw-added")).to_have_text([f"+{line}" for line in LINES])
    assert await written(page) == RULES + "".join(f"{line}\n" for line in LINES)


async def test_the_history_stands_before_what_a_dry_run_shows(open_page, rules):
    page = await open_page("/rules")
    history = page.locator("#rw-history")
    before = await history.evaluate("e => e.offsetTop")
    await page.get_by_label("Prompts, one a line").fill("\n".join(f"prompt {n}" for n in range(40)))
    await page.get_by_role("button", name="Try").click()
    await expect(page.locator("#rw-trial tbody tr").first).to_be_visible()
    assert await history.evaluate("e => e.offsetTop") == before
