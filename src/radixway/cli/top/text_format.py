"""Numbers as sparklines and short words; strips control characters from foreign names."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
_PORT_WIDTH = 6
_IN_ASCII = str.maketrans(_LEVELS + "–…·", "_.-=+*#@-~.")


def to_ascii(text: str) -> str:
    """Return `text` in ASCII, for terminals and files without Unicode."""
    return text.translate(_IN_ASCII).encode("ascii", "replace").decode()


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The latest `width` values between 0 and their largest, the newest on the right; None is a gap."""
    shown = list(values)[-width:] if width > 0 else []
    top = max((value for value in shown if value is not None), default=0.0)
    line = "".join(" " if value is None else _spark_level(value, top) for value in shown)
    return line.rjust(width)


def _spark_level(value: float, top: float) -> str:
    if top <= 0 or value <= 0:
        return _LEVELS[0]
    return _LEVELS[min(int(value / top * len(_LEVELS)), len(_LEVELS) - 1)]


def format_number(value: float | None) -> str:
    """Format `value`, a count or a rate, in at most five characters: `0`, `0.4`, `12.3`, `1234`, `12.3k`."""
    if value is None:
        return UNKNOWN
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            shown = value / (1e3 if unit == "k" else size)
            return f"{shown:.1f}{unit}" if shown < 100 else f"{shown:.0f}{unit}"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def format_seconds(value: float | None) -> str:
    """Format `value`, in seconds, as people say it: `4.2ms`, `130ms`, `1.3s`, `2m`."""
    if value is None:
        return UNKNOWN
    if value < 0.01:
        return f"{value * 1e3:.1f}ms"
    if value < 1:
        return f"{value * 1e3:.0f}ms"
    return f"{value:.1f}s" if value < 100 else f"{value / 60:.0f}m"


def format_share(value: float | None) -> str:
    """Format `value`, a share of one, in percent."""
    return UNKNOWN if value is None else f"{value * 100:.0f}%"


def shorten_middle(text: str, width: int) -> str:
    """`text` in at most `width` characters: as a worker's name has host and port."""
    if len(text) <= width:
        return text
    return f"{text[: width - 1 - _PORT_WIDTH]}…{text[-_PORT_WIDTH:]}"


def strip_control(text: str, width: int | None = None) -> str:
    """Return `text` without control characters and escapes, cut to `width`."""
    harmless = "".join(each if each.isprintable() else "·" for each in text)
    if width is not None and len(harmless) > width:
        return harmless[: max(width - 1, 0)] + "…"
    return harmless
