"""What a model wrote, as markdown: HTML in it is text, and links that would do something are taken out."""

from __future__ import annotations

import markdown2
from nicegui import ui

_EXTRAS = ("fenced-code-blocks", "tables", "cuddled-lists", "strike")


class Markdown(ui.markdown):
    """NiceGUI's element, which would take HTML as it is and leave all of it to the browser to clean."""

    def __init__(self, text: str) -> None:
        super().__init__(text, extras=list(_EXTRAS), sanitize=True)

    def _handle_content_change(self, content: str) -> None:
        self.props["innerHTML"] = markdown2.markdown(content, extras=self.extras, safe_mode="escape")
