"""Pictures of the console's pages: two engines behind a gateway with all that pages show, and real traffic.

    python tools/console_screenshots.py [--out docs/figures] [--all DIRECTORY] [--figures]

`--out` gets the pictures of README and docs, in light colours. `--all` gets every page as it looks in light,
dark, on a phone and in Chinese, to be looked at. `--figures` takes no pictures and prints, as JSON, what the
first page costs a browser, at its first visit and at its next. Chromium is /usr/bin/chromium, or
RADIXWAY_CHROMIUM. Without a Chinese font, install the wheel
cvttf-notosanscjk-regular (27 MB) first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, BrowserContext, async_playwright

KEY, TENANTS_KEY = "the-admin-key", "the-key-of-acme"
MODEL = "radixway-guide"
RULES = """\
default_model: radixway-guide
keyword_rules:
  - {category: routing, keywords: [route, worker, prefix]}
categories:
  - name: routing
    model_scores: [{model: radixway-guide, score: 0.9, use_reasoning: false}]
regex_rules:
  - {name: no-secrets, pattern: 'project-zeus', action: block, message: this project is not spoken of}
"""
SYSTEM = "You are the guide of a library of machines. Answer briefly and kindly. " * 12
QUESTIONS = (
    "What is a radix tree?",
    "What is a KV cache?",
    "How does a prefix reach the right worker?",
    "What is a radix tree?",
    "Write to anna.smith@example.org about it.",
    "What of project-zeus?",
)
THINGS = ("library", "river", "kitchen", "railway", "garden", "harbour", "loom", "clock", "bridge", "market")
ASKED = "How does a prefix reach the right worker?"
PAGES = {
    "welcome": "/welcome",
    "live": "/live",
    "workers": "/workers",
    "requests": "/requests",
    "request": "/requests/shown-2",
    "prefixes": "/prefixes",
    "playground": f"/playground?prompt={ASKED.replace(' ', '%20')}",
    "chat": "/chat",
    "keys": "/keys",
    "teams": "/teams",
    "users": "/users",
    "usage": "/usage",
    "guard": "/guard",
    "cache": "/cache",
    "simulate": "/simulate",
    "rules": "/rules",
}
IN_DOCS = ("welcome", "live", "requests", "request", "playground", "keys", "usage", "guard")
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
KINDS = {
    "light": (WIDE, "light", "en-GB"),
    "dark": (WIDE, "dark", "en-GB"),
    "phone": (PHONE, "light", "en-GB"),
    "chinese": (WIDE, "light", "zh-CN"),
}
PAUSE_S = 0.3
"""Between two requests."""
WARM_UP_S = 15.0
SETTLE_S = 2.5
"""Until charts are drawn and figures have come."""


LOADING = """async () => {
  const seen = (type) => new Promise((done) => {
    const found = [];
    new PerformanceObserver((list) => found.push(...list.getEntries())).observe({type, buffered: true});
    setTimeout(() => done(found), 200);
  });
  const [paints, largest, shifts, tasks] = await Promise.all(
    ["paint", "largest-contentful-paint", "layout-shift", "longtask"].map(seen));
  const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const paint = paints.find((each) => each.name === "first-contentful-paint")?.startTime ?? 0;
  return {
    first_contentful_paint_ms: Math.round(paint),
    largest_contentful_paint_ms: Math.round(largest.at(-1)?.startTime ?? 0),
    total_blocking_time_ms: Math.round(
      tasks.filter((each) => each.startTime >= paint).reduce((sum, each) => sum + each.duration - 50, 0)),
    layout_shift: +shifts.reduce((sum, each) => sum + each.value, 0).toFixed(3),
    requests: loaded.length,
    transferred_kb: Math.round(loaded.reduce((sum, each) => sum + each.transferSize, 0) / 1000),
  };
}"""
"""What Lighthouse reads of a page that is loaded: entries of the browser's performance timeline."""


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def process(line: str, *args: str, **environment: str) -> AsyncIterator[None]:
    """A `radixway` command from the moment when it prints `line`; terminated at the end."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        async for printed in child.stdout:
            if line in printed.decode():
                break
        else:
            raise SystemExit(f"radixway {args[0]} ended with {await child.wait()}")
        yield
    finally:
        if child.returncode is None:
            child.terminate()
        await child.communicate()


@asynccontextmanager
async def gateway() -> AsyncIterator[str]:
    """A gateway in front of two engines; yields its URL."""
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = [free_port(), free_port()]
        for port in engines:
            await stack.enter_async_context(process(str(port), "engine", "--port", str(port)))
        (home / "rules.yaml").write_text(RULES)
        port = free_port()
        tree = {
            "gateway": {"port": port, "admin_key": KEY, "drain_s": 1},
            "workers": [{"url": f"http://127.0.0.1:{engine}"} for engine in engines],
            "guard": {"pii": {"enabled": True, "action": "block"}},
            "semantic": {"config": str(home / "rules.yaml"), "watch": False},
            "semantic_cache": {"enabled": True},
            "console": {"show_prompts": True},
            "chat": {"enabled": True},
            "tenants": {
                "acme": {"keys": [{"key": TENANTS_KEY, "user": "anna"}]},
                "pricing": {MODEL: {"prompt_per_1m": 400.0, "completion_per_1m": 1200.0}},
            },
        }
        (home / "radixway.yaml").write_text(json.dumps(tree))
        serve = process(
            "gateway http", "serve", "--config", str(home / "radixway.yaml"), RADIXWAY_HOME=str(home / "home")
        )
        await stack.enter_async_context(serve)
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def browser_environment() -> AsyncIterator[dict[str, str]]:
    """Yield the environment of a browser, with a Chinese font where its wheel is installed."""
    font = find_spec("cvttf_NotoSansCJK_Regular")
    if font is None or font.origin is None:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory() as data:
        (Path(data) / "fonts").symlink_to(Path(font.origin).parent)
        yield {**os.environ, "XDG_DATA_HOME": data}


async def send_traffic(url: str) -> None:
    """Ask `QUESTIONS` until cancelled, so that charts have something to show."""
    async with aiohttp.ClientSession() as session:
        headers = {"authorization": f"Bearer {TENANTS_KEY}"}
        for number in count():
            text = QUESTIONS[number % len(QUESTIONS)]
            if number % 3:
                text += f" Compare it with a {THINGS[number % len(THINGS)]}."
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
            body = {"model": "auto", "messages": messages, "max_tokens": 48, "stream": number % 2 == 0}
            named = headers | {"x-request-id": f"shown-{number}"}
            if number % 3:  # not all of them are to be answered from the cache
                named["cache-control"] = "no-cache"
            async with session.post(f"{url}/v1/chat/completions", json=body, headers=named) as answer:
                await answer.read()
            await asyncio.sleep(PAUSE_S)


async def create_keys(url: str) -> None:
    """Create a team, users and their keys."""
    budget = {"max_budget": 20, "soft_budget": 15, "budget_duration": "30d"}
    members = [{"user_id": "anna"}, {"user_id": "ben"}]
    created = (
        ("/teams", {"id": "research", "members": members, "models": [MODEL]} | budget),
        ("/users", {"id": "anna", "email": "anna@example.org"} | budget),
        ("/users", {"id": "ben", "rpm_limit": 60}),
        ("/keys", {"alias": "anna's laptop", "user": "anna"} | budget),
        ("/keys", {"alias": "nightly batch", "team": "research", "rpm_limit": 600}),
    )
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {KEY}"}) as session:
        for path, fields in created:
            async with session.post(f"{url}{path}", json=fields) as answer:
                answer.raise_for_status()


async def sign_in(context: BrowserContext, url: str) -> None:
    """Sign the browser of `context` in."""
    page = await context.new_page()
    await page.goto(f"{url}/console/sign-in")
    await page.locator("#key").fill(KEY)
    await page.locator("button[type=submit]").click()
    await page.locator("#rw-main").wait_for()
    await page.close()


async def take_pictures(browser: Browser, url: str, kind: str, names: list[str], directory: Path) -> None:
    """Write a picture of each page of `names`, as `kind` looks, to `directory`."""
    size, scheme, locale = KINDS[kind]
    context = await browser.new_context(
        viewport=size, color_scheme=scheme, locale=locale, reduced_motion="reduce", has_touch=kind == "phone"
    )
    await sign_in(context, url)
    for name in names:
        page = await context.new_page()
        await page.goto(f"{url}/console{PAGES[name]}")
        await page.locator("#rw-main h1").wait_for(state="attached")
        if name == "playground":
            await page.locator(".rw-form .q-btn").nth(1).click()
        await asyncio.sleep(SETTLE_S)
        cut = await page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        suffix = "" if kind == "light" else f"-{kind}"
        await page.screenshot(path=directory / f"console-{name}{suffix}.png", full_page=kind == "phone")
        print(f"console-{name}{suffix}.png{'  wider than the screen' if cut else ''}")
        await page.close()
    await context.close()


async def measure_first_page(browser: Browser, url: str) -> None:
    """Print what the first page costs a browser that has never been here, and then one that has."""
    context = await browser.new_context(viewport=WIDE)
    await context.add_cookies(await signed_in_cookies(browser, url))
    for visit in ("first", "next"):
        page = await context.new_page()
        await page.goto(f"{url}/console/")
        await page.wait_for_function("() => window.did_handshake")
        await asyncio.sleep(SETTLE_S)
        print(json.dumps({"visit": visit} | await page.evaluate(LOADING)))
        await page.close()
    await context.close()


async def signed_in_cookies(browser: Browser, url: str) -> Sequence[Any]:
    """Return the cookies of a browser that has signed in."""
    context = await browser.new_context()
    await sign_in(context, url)
    cookies = await context.cookies()
    await context.close()
    return cookies


async def main(out: Path, every: Path | None, *, figures: bool) -> None:
    """Take the pictures, or the `figures` of the first page."""
    chromium = os.environ.get("RADIXWAY_CHROMIUM", "/usr/bin/chromium")
    async with browser_environment() as env, gateway() as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], env=env)
        if figures:
            await measure_first_page(browser, url)
            return
        await create_keys(url)
        traffic = asyncio.create_task(send_traffic(url))
        await asyncio.sleep(WARM_UP_S)
        if every is None:
            await take_pictures(browser, url, "light", list(IN_DOCS), out)
        else:
            for kind in KINDS:
                await take_pictures(browser, url, kind, list(PAGES), every)
        traffic.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--all", type=Path, dest="every", metavar="DIRECTORY")
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    if given.every is not None:
        given.every.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given.out, given.every, figures=given.figures))
