"""A live gateway with two real engines, and a real browser that looks at its console.

Tests in a browser are `async` and share one loop, as their fixtures do::

    pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

    async def test_a_page_shows_this(open_page):
        page = await open_page("/workers")
        await expect(page.get_by_role("heading", name="Workers")).to_be_visible()

With RADIXWAY_SCREENSHOTS=DIR, `pictures(page, "name")` writes what is seen there: light, dark and as on a
phone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from support.engine_process import engine_process
from support.gateway_process import gateway_process
from support.maths_rules import RULES

ADMIN_KEY = "the-admin-key"
CHROMIUM = os.environ.get("RADIXWAY_CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}

OpenPage = Callable[..., Awaitable[Page]]


@dataclass(frozen=True)
class Live:
    """The gateway's URL, its engines' and what it is called with."""

    url: str
    engines: tuple[str, str]
    rules: Path
    """The file of rules that it judges requests by."""
    key: str = ADMIN_KEY


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A gateway that needs a key, and two engines with the bundled model, each in a process of its own."""
    directory = tmp_path_factory.mktemp("console")
    rules = directory / "rules.yaml"
    rules.write_text(RULES)
    with ExitStack() as stack:
        engines = tuple(stack.enter_context(engine_process())[0] for _ in range(2))
        tree = {
            "gateway": {"port": 0, "admin_key": ADMIN_KEY, "drain_s": 1},
            "workers": [{"url": url} for url in engines],
            "routing": {"health": {"interval_s": 0.2}},
            "chat": {"enabled": True},
            "semantic": {"config": str(rules), "watch": False},
        }
        url, _ = stack.enter_context(gateway_process(directory, tree, home=directory / "home"))
        yield Live(url, engines, rules)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def signed_in(live: Live, browser: Browser) -> list[Any]:
    """The cookies of one who has signed in."""
    return await sign_in(browser, live.url, live.key)


async def sign_in(browser: Browser, url: str, key: str) -> list[Any]:
    """With that key at that gateway; the browser's cookies then."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{url}/console/sign-in")
    await page.get_by_label("Admin key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{url}/console/")
    cookies = await context.cookies()
    await context.close()
    return cookies


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(live: Live, browser: Browser, signed_in: list[Any]) -> AsyncIterator[OpenPage]:
    """`await open_page("/workers", phone=True, dark=True, locale="zh-CN")`: a page of a signed-in
    browser's, once it is alive. An error in its scripts fails the test. `url`: of another gateway, with the
    cookies of `sign_in` there. `before`: called with the page before it goes there."""
    contexts = []
    errors: list[str] = []

    async def open_page(
        path: str,
        *,
        phone: bool = False,
        dark: bool = False,
        locale: str = "en-GB",
        url: str | None = None,
        cookies: Sequence[Any] = (),
        user_agent: str | None = None,
        before: Callable[[Page], Awaitable[None]] | None = None,
    ) -> Page:
        context = await browser.new_context(
            viewport=PHONE if phone else WIDE,
            has_touch=phone,
            user_agent=user_agent,
            color_scheme="dark" if dark else "light",
            locale=locale,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        await context.add_cookies([*signed_in, *cookies])
        page = await context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        if before is not None:
            await before(page)
        await page.goto(f"{url or live.url}/console{path}")
        await page.locator("#rw-main").wait_for()
        await page.wait_for_function("() => window.did_handshake")
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert errors == []


@pytest.fixture
def pictures() -> Callable[[Page, str], Awaitable[None]]:
    """Writes what is seen to RADIXWAY_SCREENSHOTS, if it is set; leaves the page as it was."""

    async def pictures(page: Page, name: str) -> None:
        directory = os.environ["RADIXWAY_SCREENSHOTS"]
        was = page.viewport_size
        kinds = (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE))
        for kind, scheme, size in kinds:
            await page.emulate_media(color_scheme=scheme)
            await page.set_viewport_size(size)
            await page.evaluate("() => new Promise(done => setTimeout(done, 500))")  # charts draw anew
            await page.screenshot(path=f"{directory}/{name}-{kind}.png", full_page=kind == "phone")
        await page.emulate_media(color_scheme="light")
        await page.set_viewport_size(was)

    async def no_pictures(page: Page, name: str) -> None:
        """Nobody looks."""

    return pictures if os.environ.get("RADIXWAY_SCREENSHOTS") else no_pictures
