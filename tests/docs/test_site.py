"""The documentation's site: built as `make docs` builds it, whole, and from nothing but this repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?:https?:)?//|<link[^>]*\shref=\"(?:https?:)?//"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    found = {page.name: FROM_ELSEWHERE.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: links for name, links in found.items() if links} == {}


@pytest.mark.slow
def test_references_tell_what_the_code_has(site: Path) -> None:
    keys = (site / "reference/configuration.html").read_text(encoding="utf-8")
    assert "request_timeout_s" in keys and "similarity_threshold" in keys
    paths = (site / "reference/http-gateway.html").read_text(encoding="utf-8")
    assert all(path in paths for path in ("/v1/chat/completions", "/generate", "/explain/{request_id}"))
    engine = (site / "reference/http-engine.html").read_text(encoding="utf-8")
    assert all(path in engine for path in ("/prefetch", "/update_weights_from_tensor", "/v1/models/{model}"))
    commands = (site / "reference/cli.html").read_text(encoding="utf-8")
    assert all(name in commands for name in ("radixway serve", "radixway config check", "--worker"))


@pytest.mark.slow
def test_every_document_has_its_page_and_its_language(site: Path) -> None:
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    nav = (site / "index.html").read_text(encoding="utf-8")
    assert all((site / path).with_suffix(".html").is_file() for path in documents)
    assert 'href="decisions/' in nav and 'lang="en"' in nav
    assert '<html lang="zh-CN"' in (site / "zh" / "quick-start.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_search_needs_no_server(site: Path) -> None:
    assert (site / "search/search_index.js").is_file()
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    told = " ".join(entry["text"] for entry in index["docs"])
    assert "overlap_weight" in told and "前缀" in told


@pytest.mark.slow
def test_search_finds_in_a_folder_of_files(site: Path) -> None:
    """In a real browser, from the files themselves; nothing is asked of any network."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here")
    sync_api = pytest.importorskip("playwright.sync_api")
    asked: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        for words, found in (("overlap_weight", "overlap_weight"), ("基数树", "快速开始")):
            page.locator("input.md-search__input").click()
            page.locator("input.md-search__input").fill(words)
            page.keyboard.press("End")  # the page looks at what was typed as a key goes up
            result = page.locator(".md-search-result__list", has_text=found)
            result.wait_for(timeout=120_000)
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_figures_are_those_that_the_script_draws() -> None:
    sys.path.insert(0, str(ROOT / "tools" / "docs_site"))
    try:
        from figures import files
    finally:
        sys.path.pop(0)
    for name, text in files().items():
        assert (ROOT / "docs" / "figures" / name).read_text(encoding="utf-8") == text, name
