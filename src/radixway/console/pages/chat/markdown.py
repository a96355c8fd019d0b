"""What a model wrote, as markdown: HTML in it is text, images are links, and links that would act are text.

markdown-it takes time in proportion to the text, whatever stands there; a converter made of patterns can be
made to fail, or to hold up every page, by an answer of nothing but brackets.
"""

from __future__ import annotations

from html import escape

from markdown_it import MarkdownIt
from nicegui import ui

_LONGEST = 50_000
"""Characters of an answer that are read as markdown; more is shown as it is."""

_markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


class SafeMarkdown(ui.markdown):
    """NiceGUI's element, which would take HTML as it is and leave all of it to the browser to clean."""

    def __init__(self, text: str) -> None:
        super().__init__(text, sanitize=True)

    def _handle_content_change(self, content: str) -> None:
        self.props["innerHTML"] = render_html(content)


def render_html(text: str) -> str:
    """The text as HTML that does nothing."""
    if len(text) > _LONGEST:
        return f"<div class='rw-text'>{escape(text)}</div>"
    return str(_markdown.render(text))
