"""Which bytes of a text each token stands for, as workers show it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories.insertion import AlignedText, align_tokens
from support.odd_texts import guide

END, START = 8, 9


@dataclass
class Pieces:
    token_bytes: dict[int, bytes] = field(
        default_factory=lambda: {
            0: b"",
            1: b"yes",
            2: b" no",
            3: b"\n\n",
            4: b"\xf0\x9f",
            5: b"\x99\x82",
            6: b"\x82",
            7: b"x" * 255,
            END: b"<end>",
            START: b"<start>",
            10: b"x" * 256,
            11: b"\x80" * 100,
        }
    )
    special_ids: frozenset[int] = frozenset({END, START})


def cut(text: bytes | str, ids: list[int], *, first: bool = False) -> AlignedText | None:
    raw = text.encode() if isinstance(text, str) else text
    return align_tokens(raw, ids, Pieces(), first=first)


def parts(aligned: AlignedText | None) -> list[bytes]:
    assert aligned is not None
    ends = [sum(aligned.widths[: at + 1]) for at in range(len(aligned.widths))]
    return [aligned.text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def test_a_text_is_cut_where_its_tokens_end():
    aligned = cut("yes no\n\n", [1, 2, 0, 3])
    assert parts(aligned) == [b"yes", b" no", b"", b"\n\n"] and aligned.hidden == []


def test_special_tokens_may_be_left_out_anywhere():
    aligned = cut("yes no", [START, 1, END, 2, END])
    assert parts(aligned) == [b"<start>", b"yes", b"<end>", b" no", b"<end>"]
    assert aligned.hidden == [0, 2, 4]


def test_special_tokens_that_are_shown_are_not_hidden():
    aligned = cut("yes<end> no", [1, END, 2, END])
    assert aligned is not None and aligned.hidden == [3]


def test_what_follows_a_stop_string_is_hidden():
    """Workers cut the text before it; the tokens that spell it were sampled all the same."""
    aligned = cut("yes", [1, 3, 2, END])
    assert parts(aligned) == [b"yes", b"\n\n", b" no", b"<end>"] and aligned.hidden == [1, 2, 3]


def test_a_token_in_which_the_stop_string_begins_is_shown_in_part():
    aligned = cut("yes\n", [1, 3, 2])
    assert parts(aligned) == [b"yes", b"\n", b" no"] and aligned.hidden == [2]


def test_a_character_may_be_divided_between_tokens():
    assert parts(cut("yes🙂", [1, 4, 5])) == [b"yes", b"\xf0\x9f", b"\x99\x82"]


def test_bytes_that_are_no_character_are_shown_as_a_replacement():
    shown = "�".encode()
    assert parts(cut("yes�yes", [1, 6, 1])) == [b"yes", shown, b"yes"]
    assert parts(cut("yes�", [1, 4])) == [b"yes", shown], "it broke off within a character"
    assert parts(cut("� no", [4, 2])) == [b"", shown + b" no"], "only the next token shows it"


def test_special_tokens_may_be_left_out_beside_bytes_that_are_no_character():
    aligned = cut("<start>�yes", [START, 6, END, 1, END])
    assert parts(aligned) == [b"<start>", "�".encode(), b"<end>", b"yes", b"<end>"]
    assert aligned.hidden == [2, 4]
    assert cut("🙂", [4, END, 5]).hidden == [1], "the halves of a character stand on both sides"
    assert cut("�🙂", [6, 4, END, 5]) is None


def test_a_character_that_broke_off_before_a_special_token_is_shown_by_its_own_bytes():
    for text, ids in (
        ("yes�", [1, 4, END]),
        ("yes�<start>", [1, 4, END, START]),
        ("yes�yes", [1, 4, END, 1]),
    ):
        aligned = cut(text, ids)
        assert parts(aligned)[1] == "�".encode() and aligned.hidden == [2]


def test_the_first_token_may_lose_its_space():
    """SentencePiece puts one before every text and takes it away again."""
    assert parts(cut("no", [2], first=True)) == [b"no"]
    assert parts(cut(" no", [2], first=True)) == [b" no"]
    assert cut("nonsense", [2]) is None


@pytest.mark.parametrize(("text", "ids"), [("no", [1]), ("yes no", [1]), ("yes maybe", [1, 2])])
def test_tokens_of_another_text_are_not_taken_for_this_one(text, ids):
    assert cut(text, ids) is None


def test_a_token_of_255_bytes_is_the_longest_that_can_be_cut():
    assert parts(cut("x" * 255, [7])) == [b"x" * 255]
    assert cut("x" * 256, [10]) is None
    assert cut("�" * 100, [11]) is None, "what is shown counts"


@given(st.text(max_size=30), st.booleans())
def test_what_a_real_tokenizer_makes_of_a_text_cuts_it(text, first):
    tokenizer = guide()
    ids = tokenizer.encode(text)
    aligned = align_tokens(text.encode(), ids, tokenizer, first=first)
    assert aligned is not None and aligned.hidden == [] and aligned.text == text.encode()
    assert parts(aligned) == [tokenizer.token_bytes[token] for token in ids]


@given(st.lists(st.integers(0, 4095), min_size=1, max_size=12))
def test_whatever_tokens_are_sampled_cut_the_text_that_shows_them(ids):
    """Hidden special tokens, halves of characters, ids that no tokenizer would choose."""
    tokenizer = guide()
    text = tokenizer.decode(ids, skip_special_tokens=True)
    aligned = align_tokens(text.encode(), ids, tokenizer, first=False)
    if aligned is None:
        alone = "".join(tokenizer.decode(run) for run in runs_between(ids, tokenizer.special_ids))
        assert alone != text, "no character is divided by a special token"
    else:
        shown = [part for place, part in enumerate(parts(aligned)) if place not in aligned.hidden]
        assert len(aligned.widths) == len(ids) and b"".join(shown) == text.encode()


def runs_between(ids: list[int], special_ids: frozenset[int]) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    for token in ids:
        if token in special_ids:
            runs.append([])
        else:
            runs[-1].append(token)
    return runs
