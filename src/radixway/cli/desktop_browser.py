"""Opens a page in the browser of whoever sits at this machine, where somebody does."""

import os
import sys
import webbrowser
from collections.abc import Mapping

_NO_DESKTOP = ("CI", "SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")
"""Variables of which any says that nobody sees a window opened here."""


def has_desktop(environ: Mapping[str, str], platform: str, *, is_terminal: bool) -> bool:
    """Return whether a window would be seen: a person's terminal, on a machine with a display.

    `platform`: as `sys.platform`. `is_terminal`: standard output is one.
    """
    if not is_terminal or any(environ.get(name) for name in _NO_DESKTOP):
        return False
    if platform in ("darwin", "win32"):
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_page(url: str) -> bool:
    """Open `url` in the desktop's browser; return False where there is no desktop, or no browser."""
    if not has_desktop(os.environ, sys.platform, is_terminal=sys.stdout.isatty()):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
