"""When `radixway up` opens a browser: never where nobody would see it."""

import sys
import webbrowser

import pytest

from radixway.cli import desktop_browser
from radixway.cli.desktop_browser import has_desktop, open_page

X11 = {"DISPLAY": ":0"}


@pytest.mark.parametrize(
    ("environ", "platform", "is_terminal", "expected"),
    [
        (X11, "linux", True, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True, True),
        ({}, "darwin", True, True),
        ({}, "linux", True, False),
        ({"DISPLAY": ""}, "linux", True, False),
        (X11, "linux", False, False),
        (X11 | {"CI": "true"}, "linux", True, False),
        (X11 | {"SSH_CONNECTION": "a"}, "linux", True, False),
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", True, False),
    ],
)
def test_a_window_is_opened_only_where_a_person_sees_it(environ, platform, is_terminal, expected):
    assert has_desktop(environ, platform, is_terminal=is_terminal) is expected


def test_a_page_is_opened_once_on_a_desktop_and_a_missing_browser_is_no_error(monkeypatch):
    opened = []

    def refuse(url):
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    assert not open_page("http://127.0.0.1:1/console") and opened == []  # the tests' output is no terminal
    monkeypatch.setattr(desktop_browser, "has_desktop", lambda *_, is_terminal: True)
    assert open_page("http://127.0.0.1:1/console") and opened == ["http://127.0.0.1:1/console"]
    monkeypatch.setattr(webbrowser, "open", refuse)
    assert not open_page("http://127.0.0.1:1/console") and sys.stdout
