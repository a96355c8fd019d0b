"""Pages link to files beside `docs/` as they stand in the repository; on the site these are pages, too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_LINK = re.compile(r"(?<!!)(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^(\s*)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".env": "ini",
    ".sh": "bash",
}
_ALWAYS = ("benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.zh-CN.md", "examples/README.md")
"""In the navigation."""


def linked_files(root: Path, pages: Iterable[Path]) -> list[Path]:
    """Files outside of `docs/` that pages link to, and those that these link to in turn."""
    found: dict[Path, None] = {root / name: None for name in _ALWAYS if (root / name).is_file()}
    waiting = [*pages, *found]
    while waiting:
        page = waiting.pop()
        if page.suffix != ".md":
            continue
        for _, path in _links(root, page.read_text(encoding="utf-8"), page):
            if _is_outside(root, path) and path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


def page_of_file(root: Path, path: Path) -> tuple[str, str]:
    """Where a file's page stands, and its Markdown: its own, the text in a frame, or a folder's list."""
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        rows = "\n".join(
            f"- `{each.name}`" for each in sorted(path.iterdir()) if not each.name.startswith((".", "__"))
        )
        return _uri(root, path), f"# `{name}/`\n\n{rows}\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return _uri(root, path), text
    fence = "`````"
    return _uri(root, path), f"# `{name}`\n\n{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def with_links(root: Path, markdown: str, uri: str, source: Path) -> str:
    """The page's Markdown, with links that lead where its files stand on the site."""
    here = Path(uri).parent

    def lead(match: re.Match[str]) -> str:
        path = _resolve(match[2], source)
        if path is None or not (path.exists() and path.is_relative_to(root)):
            return match[0]
        if path.is_relative_to(root / "docs") and source.is_relative_to(root / "docs"):
            return match[0]
        target = _uri(root, path)
        return f"{match[1]}{os.path.relpath(target, here)}{match[3]}"

    return "".join(part if is_code else _LINK.sub(lead, part) for part, is_code in _prose_and_code(markdown))


def _prose_and_code(markdown: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for block in _FENCE.finditer(markdown):
        yield markdown[at : block.start()], False
        yield block[0], True
        at = block.end()
    yield markdown[at:], False


def _links(root: Path, markdown: str, source: Path) -> Iterator[tuple[str, Path]]:
    for part, is_code in _prose_and_code(markdown):
        if is_code:
            continue
        for match in _LINK.finditer(part):
            path = _resolve(match[2], source)
            if path is not None and path.exists():
                yield match[2], path


def _resolve(link: str, source: Path) -> Path | None:
    if "://" in link or link.startswith(("/", "mailto:", "<")):
        return None
    return Path(os.path.normpath(source.parent / link))


def _is_outside(root: Path, path: Path) -> bool:
    return path.is_relative_to(root) and path != root and not path.is_relative_to(root / "docs")


def _uri(root: Path, path: Path) -> str:
    if path.is_relative_to(root / "docs"):
        return path.relative_to(root / "docs").as_posix()
    name = path.relative_to(root).as_posix()
    return f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md"
