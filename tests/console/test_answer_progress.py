"""What pages make of streams and findings, without a browser."""

import pytest

from radixway.console.pages.chat.chat_service import AnswerProgress
from radixway.console.pages.playground.findings import MarkedPiece, split_marked


def found(begin, end, kind="X"):
    return {"start_position": begin, "end_position": end, "type": kind, "confidence": 0.9}


@pytest.mark.parametrize(
    ("text", "entities", "expected"),
    [
        ("abc", [], [MarkedPiece("abc", None)]),
        (
            "abcd",
            [found(1, 3)],
            [MarkedPiece("a", None), MarkedPiece("bc", "X", 0.9), MarkedPiece("d", None)],
        ),
        ("abcd", [found(2, 4), found(0, 3)], [MarkedPiece("abc", "X", 0.9), MarkedPiece("d", None)]),
        ("𝒜b", [found(1, 2)], [MarkedPiece("𝒜", None), MarkedPiece("b", "X", 0.9)]),
        ("ab", [found(1, 1), found(0, 9)], [MarkedPiece("ab", "X", 0.9)]),
    ],
)
def test_a_text_is_told_whole_with_its_findings(text, entities, expected):
    assert list(split_marked(text, entities)) == expected
    assert "".join(piece.text for piece in expected) == text


def test_an_answer_that_begins_anew_forgets_what_was_said():
    heard = AnswerProgress()
    heard.add_event({"event_type": "pending", "queue_position": 2, "queue_size": 5})
    assert heard.queue_place == (2, 5)
    heard.add_event({"event_type": "token", "text": "one"})
    heard.add_event({"event_type": "restart"})
    heard.add_event({"event_type": "token", "text": "two"})
    heard.add_event({"event_type": "something_new"})
    assert (heard.text, heard.queue_place, heard.over) == ("two", None, False)
    heard.add_event({"event_type": "error", "error": "broken"})
    assert heard.over and heard.error == "broken"
