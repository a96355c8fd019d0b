"""Reads the text of the page, PDF or document at a URL, for `web_retriever`."""

import asyncio
import json
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from radixway.chat.plugins.plugin import ToolError, strip_unstorable
from radixway.core.net import FetchedResource, FetchError, UrlFetcher

_EXTRACT_TIMEOUT_S = 10.0
_MAX_PROCESSES = 4
_MAX_JSON_NODES = 400
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([a-zA-Z0-9_-]+)""", re.IGNORECASE)
PageKind = Literal["html", "pdf", "json", "text"]


class PageReader:
    """Fetches URLs and returns their text."""

    def __init__(self, fetcher: UrlFetcher, characters: int) -> None:
        """`characters`: of a text, at most."""
        self._fetcher = fetcher
        self._characters = characters
        self._readers = asyncio.Semaphore(_MAX_PROCESSES)

    async def read_text(self, url: str) -> str:
        """Return the text at `url`: of HTML, PDF, JSON, or any text. Raises ToolError."""
        try:
            fetched = await self._fetcher.fetch(url)
        except FetchError as error:
            raise ToolError(f"the url is not available: {error}") from None
        if fetched.status >= 400:
            raise ToolError(f"the url is not available: status {fetched.status}")
        kind = detect_kind(fetched)
        if kind is None:
            raise ToolError(f"what is there is no text ({fetched.content_type})")
        if kind == "json":
            return (await asyncio.to_thread(render_json, fetched))[: self._characters]
        if kind == "text":
            return strip_unstorable(fetched.decode_text())[: self._characters]
        if kind == "pdf" and not fetched.is_complete:
            raise ToolError("the document is too large")
        body = fetched.body if kind == "pdf" else _to_utf8(fetched)
        async with self._readers:
            return strip_unstorable(await _extract_in_process(kind, body, self._characters))


def _to_utf8(page: FetchedResource) -> bytes:
    """Decode HTML by its headers' charset, else by its first kilobyte, as browsers do."""
    if page.charset is None and (found := _CHARSET.search(page.body[:1024])) is not None:
        page = replace(page, charset=found[1].decode())
    return page.decode_text().encode("utf-8", "replace")


def detect_kind(fetched: FetchedResource) -> PageKind | None:
    """Return the kind of `fetched` by its content type, else by its first bytes. None: it is not text."""
    mime, start = fetched.content_type, fetched.body[:1024].lstrip()
    if mime == "application/pdf" or (mime == "application/octet-stream" and start.startswith(b"%PDF-")):
        return "pdf"
    if mime in ("text/html", "application/xhtml+xml") or start[:14].lower().startswith(
        (b"<!doctype html", b"<html")
    ):
        return "html"
    if mime == "application/json" or mime.endswith("+json"):
        return "json"
    if mime.startswith("text/") or mime.endswith(("xml", "yaml", "javascript")):
        return "text"
    return None if b"\0" in start or mime != "application/octet-stream" else "text"


def render_json(fetched: FetchedResource) -> str:
    """Return the beginning of the document in `fetched` as YAML, which takes fewer characters than JSON."""
    try:
        document = json.loads(fetched.body)
        return strip_unstorable(
            yaml.safe_dump(_truncate_value(document, [_MAX_JSON_NODES]), sort_keys=False, allow_unicode=True)
        )
    except (ValueError, RecursionError, yaml.YAMLError):
        return strip_unstorable(fetched.decode_text())


def _truncate_value(value: Any, left: list[int]) -> Any:
    left[0] -= 1
    if isinstance(value, dict):
        return {key: _truncate_value(item, left) for key, item in value.items() if left[0] > 0}
    if isinstance(value, list):
        return [_truncate_value(item, left) for item in value if left[0] > 0]
    return value


async def _extract_in_process(kind: str, body: bytes, characters: int) -> str:
    """Extract text in a process of its own, since hostile files may crash the reader. Raises ToolError."""
    program = Path(__file__).with_name("page_text.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(program), kind, str(characters)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_EXTRACT_TIMEOUT_S):
            text, _ = await process.communicate(body)
    except TimeoutError:
        raise ToolError(f"the {kind} takes too long to read") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError(f"the {kind} cannot be read")
    return text.decode("utf-8", "replace")
