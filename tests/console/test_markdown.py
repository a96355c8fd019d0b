"""Answers as markdown, whatever a model writes."""

from time import process_time

import pytest

from radixway.console.pages.chat.message import render_html

MOST_S = 5.0


@pytest.mark.parametrize("part", ["[", "![", "> ", "\t", "`", "[a](", "|a", "- a\n", "*a**b", "<!--"])
def test_no_answer_holds_up_the_pages(part):
    began = process_time()
    render_html(part * (5_000 // len(part)))
    assert process_time() - began < MOST_S


def test_html_in_an_answer_is_text():
    assert render_html("<img src=x onerror=alert(1)>") == "<p>&lt;img src=x onerror=alert(1)&gt;</p>\n"


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x"])
def test_a_link_that_would_act_is_text(address):
    assert "<a" not in render_html(f"[click]({address})")


def test_nothing_is_loaded_from_where_an_answer_says():
    assert "<img" not in render_html("![seen](http://elsewhere/pixel.png)")


def test_a_very_long_answer_is_shown_as_it_is():
    assert render_html("<b>" + "a" * 100_000).startswith("<div class='rw-text'>&lt;b&gt;aaa")
