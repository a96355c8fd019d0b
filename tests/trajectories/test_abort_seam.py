"""Text and routed experts across the seam of two parts of an answer."""

from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import radixway
from radixway.core.tokenizer import Tokenizer
from radixway.trajectories.partial_answer import (
    answer_versions,
    cut_answer,
    find_stop_across,
    first_rows,
    is_clean_splice,
    join_answers,
    join_reply_experts,
    read_partial_answer,
    repair_splice,
)

GUIDE = Path(radixway.__file__).parent / "bundled" / "guide"
TOKENIZER = Tokenizer.load(GUIDE)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(TEXTS | st.text("基数树🌲é ", min_size=1, max_size=20), st.data())
def test_wherever_tokens_are_divided_the_text_is_that_of_all(text, data):
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    at = data.draw(st.integers(0, len(ids)))
    first, second = TOKENIZER.decode(ids[:at]), TOKENIZER.decode(ids[at:])
    whole = TOKENIZER.decode(ids)
    assert (
        first + second if is_clean_splice(first, second) else repair_splice(first, second, whole)
    ) == whole


def test_a_long_run_of_bytes_that_are_no_characters_keeps_its_length():
    assert repair_splice("Ω" + 9 * "\ufffd", 12 * "\ufffd", "Ω" + 21 * "\ufffd") == "Ω" + 21 * "\ufffd"
    assert (
        repair_splice("Ω" + 9 * "\ufffd", 12 * "\ufffd" + "b", "Ω" + 21 * "\ufffd" + "b")
        == "Ω" + 21 * "\ufffd" + "b"
    )


def test_a_stop_string_that_was_cut_off_stays_cut_off():
    assert repair_splice("a\ufffd", "\ufffdb", "aéb STOP") == "aéb"
    assert repair_splice("x\ufffd", "\ufffdb", "something else") is None


@pytest.mark.parametrize(
    ("text", "seam", "found"),
    [
        ("ab|cd", 2, None),
        ("one STOP two", 6, (4, 8, "STOP")),
        ("one STOP two", 4, None),  # it lies wholly behind the seam: the worker has seen it
        ("one STOP two", 8, None),
        ("xaab", 3, (2, 4, "ab")),
    ],
)
def test_only_a_stop_string_across_the_seam_counts(text, seam, found):
    assert find_stop_across(text, seam, ["STOP", "ab", ""]) == found


def rows(*tokens: int) -> str:
    """Two int32 a token."""
    return b64encode(b"".join(token.to_bytes(4, "little") * 2 for token in tokens)).decode()


def meta(experts: str, prompt: int, sampled: int) -> dict:
    return {"routed_experts": experts, "prompt_tokens": prompt, "completion_tokens": sampled}


def test_rows_of_the_first_part_are_kept_and_new_ones_follow():
    first = meta(rows(1, 2, 3, 4), 3, 2)
    kept = {"routed_experts": rows(1, 2, 3, 4, 55, 66)}
    assert join_reply_experts(first, meta(rows(55, 66), 5, 2), 2) == kept
    assert join_reply_experts(first, meta(rows(11, 22, 33, 44, 55, 66), 5, 2), 2) == kept


def test_rows_from_a_later_token_on_are_counted_from_there():
    first = meta(rows(3, 4), 3, 2)
    assert join_reply_experts(first, meta(rows(55), 5, 1), 1, start=2) == {"routed_experts": rows(3, 4, 55)}


@pytest.mark.parametrize("odd", ["no base64!", rows(1, 2, 3), 7, None])
def test_rows_that_fit_nowhere_stay_as_they_came(odd):
    assert join_reply_experts(meta(rows(1, 2, 3, 4), 3, 2), meta(odd, 5, 2), 2) == {}


def test_dropped_tokens_take_their_rows_along():
    left = first_rows(meta(rows(1, 2, 3, 4), 3, 2), dropped=1)
    assert b64decode(left["routed_experts"]) == b64decode(rows(1, 2, 3))


IDS = st.lists(st.integers(0, 99), max_size=12)


@given(IDS, IDS, st.integers(0, 3))
def test_parts_joined_and_cut_again_are_the_first_part(one, two, spans):
    def part(ids: list[int], version: str):
        ends = sorted({len(ids) * n // (spans + 1) for n in range(1, spans + 2)} - {0})
        starts = [0, *ends][: len(ends)]
        info = {
            "weight_version": version,
            "completion_tokens": len(ids),
            "output_token_logprobs": [[-1.0, token, None] for token in ids],
            "output_top_logprobs": [[[-1.0, token, None]] for token in ids],
        }
        if spans:
            info["weight_versions"] = [
                {"version": f"{version}.{n}", "start": start, "end": end}
                for n, (start, end) in enumerate(zip(starts, ends, strict=True))
            ]
        return read_partial_answer({"text": "x" * len(ids), "output_ids": ids, "meta_info": info})

    first, second = part(one, "1"), part(two, "2")
    whole = join_answers(first, second)
    assert whole.ids == one + two and whole.text == "x" * len(one + two)
    assert whole.meta["completion_tokens"] == len(one + two)
    assert [entry[1] for entry in whole.meta["output_token_logprobs"]] == one + two
    covered = [n for span in answer_versions(whole) for n in range(span["start"], span["end"])]
    assert covered == list(range(len(one + two)))
    again = cut_answer(whole, len(one), text=first.text)
    assert again.ids == one and again.meta["output_top_logprobs"] == first.meta["output_top_logprobs"]
    assert answer_versions(again) == answer_versions(first)
