"""The documentation's site: built as `make docs` builds it, whole, and from nothing but this repository."""

from __future__ import annotations

import json
import os
import re
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


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    found = {page.name: FROM_ELSEWHERE.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: links for name, links in found.items() if links} == {}


def test_references_tell_what_the_code_has(site: Path) -> None:
    keys = (site / "reference/configuration.html").read_text(encoding="utf-8")
    assert "request_timeout_s" in keys and "similarity_threshold" in keys
    paths = (site / "reference/http-gateway.html").read_text(encoding="utf-8")
    assert all(path in paths for path in ("/v1/chat/completions", "/generate", "/explain/{request_id}"))
    engine = (site / "reference/http-engine.html").read_text(encoding="utf-8")
    assert all(path in engine for path in ("/prefetch", "/update_weights_from_tensor", "/v1/models/{model}"))
    commands = (site / "reference/cli.html").read_text(encoding="utf-8")
    assert all(name in commands for name in ("radixway serve", "radixway config check", "--worker"))


def test_search_needs_no_server(site: Path) -> None:
    assert (site / "search/search_index.js").is_file()
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    told = " ".join(entry["text"] for entry in index["docs"])
    assert "overlap_weight" in told and "前缀" in told
