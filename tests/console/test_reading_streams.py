"""What pages make of streams and findings, without a browser."""

import pytest

from radixway.console.pages.chat.hearing import Heard
from radixway.console.pages.playground.marking import Piece, pieces


def found(begin, end, kind="X"):
    return {"start_position": begin, "end_position": end, "type": kind, "confidence": 0.9}


@pytest.mark.parametrize(
    ("text", "entities", "expected"),
    [
        ("abc", [], [Piece("abc", None)]),
        ("abcd", [found(1, 3)], [Piece("a", None), Piece("bc", "X", 0.9), Piece("d", None)]),
        ("abcd", [found(2, 4), found(0, 3)], [Piece("abc", "X", 0.9), Piece("d", None)]),
        ("𝒜b", [found(1, 2)], [Piece("𝒜", None), Piece("b", "X", 0.9)]),
        ("ab", [found(1, 1), found(0, 9)], [Piece("ab", "X", 0.9)]),
    ],
)
def test_a_text_is_told_whole_with_its_findings(text, entities, expected):
    assert list(pieces(text, entities)) == expected
    assert "".join(piece.text for piece in expected) == text


def test_an_answer_that_begins_anew_forgets_what_was_said():
    heard = Heard()
    heard.hear({"event_type": "pending", "queue_position": 2, "queue_size": 5})
    assert heard.place == (2, 5)
    heard.hear({"event_type": "token", "text": "one"})
    heard.hear({"event_type": "restart"})
    heard.hear({"event_type": "token", "text": "two"})
    heard.hear({"event_type": "something_new"})
    assert (heard.words, heard.place, heard.over) == ("two", None, False)
    heard.hear({"event_type": "error", "error": "broken"})
    assert heard.over and heard.error == "broken"
