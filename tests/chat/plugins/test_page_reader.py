"""`web_retriever`: text of whatever a URL leads to."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator

import pytest

from radixway.chat.plugins.builtin_plugins import make_builtins
from radixway.chat.plugins.page_reader import PageReader
from radixway.chat.plugins.plugin import ToolError
from radixway.core.net import AddressAllowlist, UrlFetcher
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

HTML = """<!DOCTYPE html><html><head><title>Trees &amp; roots</title><style>p {}</style></head>
<body><nav>Home</nav><script>evil()</script><h1>A radix tree</h1><p>It is a <b>compact</b>   prefix
tree.</p><ul><li>fast</li><li>small</li></ul><footer>Imprint</footer></body></html>"""


def pdf(text: str) -> bytes:
    """A document of one page."""
    stream = zlib.compress(f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode())
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(stream), stream),
    ]
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = (len(objects) + 1, table, len(objects) + 1, len(body))
    return (
        body
        + b"xref\n0 %d\n0000000000 65535 f \n%btrailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % end
    )


PAGES: dict[str, tuple[int, bytes, str]] = {
    "/html": (200, HTML.encode(), "text/html; charset=utf-8"),
    "/latin": (200, "<html><p>Grüße</p></html>".encode("latin-1"), "text/html; charset=latin-1"),
    "/chinese": (200, "<html><meta charset=gb18030><p>基数树</p></html>".encode("gb18030"), "text/html"),
    "/unsaid": (200, HTML.encode(), "application/octet-stream"),
    "/pdf": (200, pdf("A radix tree"), "application/pdf"),
    "/list": (200, json.dumps([{"name": "pear"}, ["fig", None]]).encode(), "application/json"),
    "/object": (200, b'{"model_id": "fake", "max_input_length": 1024}', "application/json"),
    "/deep": (200, b"[" * 100_000, "application/json"),
    "/many": (200, json.dumps([["pear"] * 1000] * 1000).encode(), "application/json"),
    "/text": (200, b"just\0 words", "text/plain"),
    "/nested": (200, b"<div>" * 300_000 + b"deep", "text/html"),
    "/broken.pdf": (200, b"%PDF-1.4 and nothing else", "application/pdf"),
    "/image": (200, b"\x89PNG\0\0", "image/png"),
    "/gone": (404, b"<html>Not here</html>", "text/html"),
}


async def site(exchange: Exchange) -> None:
    await exchange.reply(*PAGES[exchange.path])


@pytest.fixture
async def web() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(site) as web:
        yield web


@pytest.fixture
async def fetcher() -> AsyncIterator[UrlFetcher]:
    async with UrlFetcher(AddressAllowlist(["127.0.0.1"])) as fetcher:
        yield fetcher


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/html", "Trees & roots\nA radix tree\nIt is a compact prefix tree.\nfast\nsmall"),
        ("/unsaid", "Trees & roots\nA radix tree\nIt is a compact prefix tree.\nfast\nsmall"),
        ("/latin", "Grüße"),
        ("/chinese", "基数树"),
        ("/pdf", "A radix tree"),
        ("/list", "- name: pear\n- - fig\n  - null\n"),
        ("/object", "model_id: fake\nmax_input_length: 1024\n"),
        ("/text", "just words"),
        ("/deep", "[" * 100),
    ],
)
async def test_pages_documents_and_data_become_text(
    web: ScriptedWorker, fetcher: UrlFetcher, path: str, text: str
) -> None:
    assert await PageReader(fetcher, 100).read_text(web.url + path) == text


@pytest.mark.parametrize("path", ["/many", "/nested", "/broken.pdf"])
async def test_what_is_made_to_break_whoever_reads_it_does_not(
    web: ScriptedWorker, fetcher: UrlFetcher, path: str
) -> None:
    try:
        assert len(await PageReader(fetcher, 100).read_text(web.url + path)) <= 100
    except ToolError as error:
        assert "cannot be read" in str(error) or "too long to read" in str(error)


@pytest.mark.parametrize("path", ["/image", "/gone"])
async def test_what_is_no_text_is_refused_in_words(
    web: ScriptedWorker, fetcher: UrlFetcher, path: str
) -> None:
    with pytest.raises(ToolError, match="no text|status 404"):
        await PageReader(fetcher, 100).read_text(web.url + path)


async def test_the_plugin_answers_in_the_published_form(web: ScriptedWorker, fetcher: UrlFetcher) -> None:
    retriever = make_builtins(fetcher, 1585)["web_retriever"]
    text = "  model_id: fake\n  max_input_length: 1024\n  \n"
    answer = await retriever.answer({"url": f"{web.url}/object"})
    assert answer == f"text_content: |\n{text}\n\nThought: I now know the answer.\n"
