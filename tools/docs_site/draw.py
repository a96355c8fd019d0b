"""A few marks from which the figures are made, as SVG that is readable on light and on dark paper.

Colours are CSS variables: on the site they follow its palette (the hook puts figures into the page),
elsewhere the reader's system.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

_RULES = Path(__file__).with_name("figure.css").read_text(encoding="utf-8")
_LIGHT = {
    "ink": "#1d2b30",
    "faint": "#5b6f76",
    "line": "#8aa1a9",
    "box": "#f1f6f7",
    "cool": "#cfe6ec",
    "warm": "#f8dcc9",
    "sun": "#fbe9b7",
    "mark": "#c8553d",
}
_DARK = {
    "ink": "#e3eaec",
    "faint": "#9db1b8",
    "line": "#6f868e",
    "box": "#22313a",
    "cool": "#1f4a58",
    "warm": "#6a3a2b",
    "sun": "#5c4a16",
    "mark": "#f0a189",
}


def site_style() -> str:
    """The figures' style on the site, where its palette says whether it is dark."""
    return f'{_colours(_LIGHT)}\n[data-md-color-scheme="slate"] {_colours(_DARK)}\n{_RULES}'


def _own_style() -> str:
    """The same in a file of its own, where the reader's system says so."""
    return f"{_colours(_LIGHT)}\n@media (prefers-color-scheme: dark) {{ {_colours(_DARK)} }}\n{_RULES}"


def _colours(colours: dict[str, str]) -> str:
    return ".rx-figure { " + " ".join(f"--{name}: {value};" for name, value in colours.items()) + " }"


class Drawing:
    """Marks on a sheet; `svg()` is the file."""

    def __init__(self, width: int, height: int, told: str) -> None:
        """`told`: the figure in words, for those who do not see it."""
        self.width = width
        self.height = height
        self._told = told
        self._marks: list[str] = []

    def box(
        self, x: float, y: float, w: float, h: float, *lines: str, kind: str = "box", code: bool = False
    ) -> None:
        """A box with its words in the middle; the first line is the strong one where there are several."""
        self._marks.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>')
        first = y + h / 2 - (len(lines) - 1) * 8 + 4.5
        for number, line in enumerate(lines):
            look = "strong" if len(lines) > 1 and number == 0 else ("faint" if number else "")
            self.text(
                x + w / 2, first + number * 16, line, kind=look + (" code" if code else ""), anchor="middle"
            )

    def text(self, x: float, y: float, words: str, *, kind: str = "", anchor: str = "start") -> None:
        """Words; `anchor` is `start`, `middle` or `end`."""
        look = f' class="{kind.strip()}"' if kind.strip() else ""
        self._marks.append(f'<text{look} x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>')

    def way(self, *points: tuple[float, float], back: bool = False, tip: bool = True) -> None:
        """An arrow through these points; `back`: what comes back, or is told."""
        kind, name = ("back", "rx-tip-back") if back else ("way", "rx-tip")
        ends = f' marker-end="url(#{name})"' if tip else ""
        drawn = " ".join(f"{x},{y}" for x, y in points)
        self._marks.append(f'<polyline class="{kind}" points="{drawn}"{ends}/>')

    def bar(self, x: float, y: float, w: float, h: float, kind: str) -> None:
        """A part of a bar, without words."""
        self._marks.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}"/>')

    def svg(self) -> str:
        """The file."""
        tips = "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" '
            f'markerWidth="7" markerHeight="7" orient="auto">'
            f'<path class="{look}" d="M0 0L8 4L0 8z"/></marker>'
            for name, look in (("rx-tip", "tip"), ("rx-tip-back", "tip-back"))
        )
        marks = "\n".join(self._marks)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="rx-figure" role="img" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}">\n'
            f"<title>{escape(self._told)}</title>\n"
            f"<style>\n{_own_style()}</style>\n<defs>{tips}</defs>\n{marks}\n</svg>\n"
        )
