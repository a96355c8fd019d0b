"""What MkDocs calls while it builds the site: pages made from the code, links that lead out of `docs/`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli_reference import cli_reference
from configuration_reference import configuration_reference
from draw import site_style
from http_reference import http_references
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from repository_links import linked_files, page_of_file, with_links

logging.getLogger("mkdocs.plugins").addFilter(lambda record: "zensical" not in record.getMessage().lower())

_ROOT = Path(__file__).resolve().parents[2]
_sources: dict[str, Path] = {}
"""By page: the file of the repository that its Markdown came from."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Decisions, and pages that the navigation does not name, stand in it too: none is lost."""
    docs = _ROOT / "docs"
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    nav: list[Any] = list(config.nav or [])
    named = set(_named(nav))
    decisions = [page for page in pages if page.startswith("decisions/")]
    others = [page for page in pages if page not in named and page not in decisions]
    config.nav = [*nav, {"Decisions": decisions}, *([{"More": others}] if others else [])]
    return config


def _named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the references, and files of the repository that pages link to."""
    made = {
        "reference/configuration.md": configuration_reference(),
        "reference/cli.md": cli_reference(),
        **http_references(),
        "assets/figures.css": site_style(),
    }
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    written = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    _sources.clear()
    for path in linked_files(_ROOT, written):
        uri, content = page_of_file(_ROOT, path)
        files.append(File.generated(config, uri, content=content))
        _sources[uri] = path
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository lead to their pages."""
    uri = page.file.src_uri
    source = _sources.get(uri) or _ROOT / "docs" / uri
    return with_links(_ROOT, markdown, uri, source)


_FIGURE = re.compile(r'(?:<p>)?<img alt="([^"]*)" src="(?:[^"]*/)?figures/([\w-]+)\.svg"\s*/?>(?:</p>)?')


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Figures stand in the page itself, so that they follow its palette."""

    def figure(match: re.Match[str]) -> str:
        drawn = (_ROOT / "docs" / "figures" / f"{match[2]}.svg").read_text(encoding="utf-8")
        marked = re.sub(r"rx-tip(-back)?(?=[\")])", rf"rx-tip\1-{match[2]}", drawn)  # ids are the page's own
        return (
            f'<figure class="rx-drawn">{re.sub(r"<style>.*?</style>", "", marked, flags=re.DOTALL)}</figure>'
        )

    return _FIGURE.sub(figure, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Chinese pages say that they are Chinese, to browsers and screen readers."""
    if page.file.src_uri.startswith("zh/") or page.file.src_uri.endswith("README.zh-CN.md"):
        return output.replace('<html lang="en"', '<html lang="zh-CN"', 1)
    return output
