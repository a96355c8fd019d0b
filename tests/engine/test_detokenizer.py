"""Streamed text is whole characters, loses nothing, and never shows part of a stop string."""

import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

import radixway.bundled
from radixway.core.tokenizer import Tokenizer
from radixway.engine.detokenizer import (
    DetokenizedStream,
    IncrementalDetokenizer,
    StopRegexMatcher,
    StopStringMatcher,
    compile_stop_regex,
)
from radixway.engine.sampling_params import SamplingParams

TEXT = "Radix trees 基数树共享前缀。Emoji 😀👩‍👩‍👧‍👦🇨🇳 naïve café Привет\n\n  indented\tx = 1\r\n"


@cache
def guide() -> Tokenizer:
    """The bundled model's byte-level BPE."""
    return Tokenizer.load(Path(radixway.bundled.__file__).parent / "guide")


@cache
def sentencepiece() -> Tokenizer:
    """`▁` for spaces and bytes for what has no piece, as Llama 2's."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Backend(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=pieces, limit_alphabet=40, show_progress=False
    )
    backend.train_from_iterator(TEXT.split("\n"), trainer)
    # Training marks the byte pieces special; in a real vocabulary they are plain entries.
    plain = Backend.from_str(backend.to_str().replace('"special":true', '"special":false'))
    plain.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in pieces[:3]])
    plain.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(plain)


def streamed(tokenizer: Tokenizer, ids: list[int], params: SamplingParams, *, at_once: int = 1) -> list[str]:
    """The deltas of `ids`, pushed `at_once` at a time until a stop string matches."""
    text = DetokenizedStream(tokenizer, params)
    deltas = []
    for at in range(0, len(ids), at_once):
        deltas.append(text.feed(ids[at : at + at_once]))
        if text.matched_stop is not None:
            break
    return [*deltas, text.flush()]


def cut(text: str, stops: list[str], *, include: bool = False, early: int = 0) -> str:
    """The plain definition: look at ever longer beginnings of the text until one ends in a stop string."""
    for end in range(early + 1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[:end] if include else text[: end - max(map(len, ending))]
    return text


some_ids = st.lists(st.integers(0, guide().backend.get_vocab_size() - 1), max_size=40)


@given(ids=some_ids, at_once=st.integers(1, 5), skip=st.booleans())
def test_deltas_of_any_tokens_join_to_the_whole_decode(ids: list[int], at_once: int, skip: bool) -> None:
    deltas = streamed(guide(), ids, SamplingParams(skip_special_tokens=skip), at_once=at_once)
    assert "".join(deltas) == guide().decode(ids, skip_special_tokens=skip)


@given(text=st.text(max_size=30), at_once=st.integers(1, 3))
@example(text=TEXT, at_once=1)
def test_a_character_split_over_tokens_never_shows_as_broken(text: str, at_once: int) -> None:
    for tokenizer in (guide(), sentencepiece()):
        ids = tokenizer.encode(text, add_special_tokens=False)
        if tokenizer.decode(ids, skip_special_tokens=False) != text:
            continue  # a special token written in the text, or a normalised one
        deltas = streamed(tokenizer, ids, SamplingParams(skip_special_tokens=False), at_once=at_once)
        joined = "".join(deltas)
        assert (joined if tokenizer is guide() else joined.removeprefix(" ")) == text
        assert "�" in text or not any("�" in delta for delta in deltas)


def test_only_a_text_of_its_own_loses_the_first_space() -> None:
    ids = sentencepiece().encode("Radix trees", add_special_tokens=False)
    text = IncrementalDetokenizer(sentencepiece())
    assert "".join(text.feed([i]) for i in ids) + text.flush() == " Radix trees"
    assert sentencepiece().decode(ids) == "Radix trees"


def test_an_unfinished_character_shows_only_at_the_end() -> None:
    ids = guide().encode("😀", add_special_tokens=False)
    first_byte = guide().backend.token_to_id("ð")
    text = DetokenizedStream(guide(), SamplingParams())
    assert [text.feed([first_byte]), text.feed(ids), text.flush()] == ["", "�😀", ""]
    text = DetokenizedStream(guide(), SamplingParams())
    assert [text.feed([first_byte]), text.flush()] == ["", "�"]


alphabet = st.text(alphabet="ab ", max_size=30)
stop_strings = st.lists(st.text(alphabet="ab ", min_size=1, max_size=5), max_size=4)


@given(text=alphabet, stops=stop_strings, include=st.booleans(), seed=st.integers(0, 10))
@example(text="aaab", stops=["aab", "ab"], include=False, seed=1)
def test_stop_strings_cut_the_same_place_however_the_text_arrives(
    text: str, stops: list[str], include: bool, seed: int
) -> None:
    chop = random.Random(seed)
    stopping = StopStringMatcher(stops, include=include)
    out, at = "", 0
    while at < len(text):
        size = chop.randint(1, 4)
        out += stopping.feed(text[at : at + size])
        at += size
    out += stopping.flush()
    assert out == cut(text, stops, include=include)
    assert (stopping.matched is not None) == any(stop in text for stop in stops)


@given(ids=some_ids, data=st.data(), include=st.booleans())
def test_answers_of_any_tokens_are_cut_at_their_stop_string(
    ids: list[int], data: st.DataObject, include: bool
) -> None:
    whole = guide().decode(ids)
    stops = [data.draw(st.sampled_from(["e", "  ", "\n", "树", "zz"]))]
    if whole:
        at = data.draw(st.integers(0, len(whole) - 1))
        stops.append(whole[at : at + data.draw(st.integers(1, 6))])
    params = SamplingParams(stop=tuple(stops), include_stop=include)
    assert "".join(streamed(guide(), ids, params)) == cut(whole, stops, include=include)


@given(text=alphabet, early=alphabet, stops=stop_strings, include=st.booleans(), seed=st.integers(0, 10))
@example(text="c", early="ab", stops=["aba", "b"], include=False, seed=1)
def test_stop_strings_that_are_complete_too_early_do_not_count(
    text: str, early: str, stops: list[str], include: bool, seed: int
) -> None:
    chop = random.Random(seed)
    stopping = StopStringMatcher(stops, include=include)
    out = ""
    for part, is_early in ((early, True), (text, False)):
        at = 0
        while at < len(part):
            size = chop.randint(1, 4)
            out += stopping.feed(part[at : at + size], early=is_early)
            at += size
    out += stopping.flush()
    assert out == cut(early + text, stops, include=include, early=len(early))


@pytest.mark.parametrize("at_once", [1, 2, 5, 100])
def test_a_stop_string_ends_an_answer_only_after_the_tokens_that_are_due(at_once: int) -> None:
    ids = guide().encode("one stop two stop three stop four", add_special_tokens=False)
    texts = [guide().decode(ids[: count + 1]) for count in range(len(ids))]
    due = next(count for count, text in enumerate(texts, 1) if "stop" in text)
    for least, expected in ((0, "one "), (due - 1, "one "), (due, "one stop two ")):
        params = SamplingParams(stop=("stop",), min_tokens=least)
        assert "".join(streamed(guide(), ids, params, at_once=at_once)) == expected
    params = SamplingParams(stop=("stop",), min_tokens=len(ids))
    assert "".join(streamed(guide(), ids, params, at_once=at_once)) == "one stop two stop three stop four"


def test_what_may_become_a_stop_string_waits_until_it_is_decided() -> None:
    stopping = StopStringMatcher(["END"])
    assert [stopping.feed(part) for part in ["go E", "N", "d EN", "D more"]] == ["go ", "", "ENd ", ""]
    assert (stopping.matched, stopping.feed("x"), stopping.flush()) == ("END", "", "")


def test_the_held_text_comes_out_at_the_end() -> None:
    stopping = StopStringMatcher(["END"])
    assert [stopping.feed("an EN"), stopping.flush()] == ["an ", "EN"]
    assert stopping.matched is None


@pytest.mark.parametrize(
    ("patterns", "out", "matched"),
    [
        (["and|or"], "sand", "and|or"),
        ([r"[.!?]\s*$"], "sand, more.", r"[.!?]\s*$"),
        (["x+", "m.re"], "sand, more", "m.re"),
        (["nothing"], "sand, more. And 你好", None),
        (["你"], "sand, more. And 你", "你"),
        (["e*"], "", "e*"),
    ],
)
def test_a_match_of_a_pattern_ends_the_text_and_stays_in_it(
    patterns: list[str], out: str, matched: str | None
) -> None:
    stopping = StopRegexMatcher(patterns)
    parts = ["sa", "nd, ", "more.", " And ", "你好"]
    assert "".join(map(stopping.feed, parts)) == out
    assert stopping.matched == matched


def test_a_pattern_that_matches_too_early_does_not_count() -> None:
    stopping = StopRegexMatcher(["ab+"])
    assert [stopping.feed("xab a", early=True), stopping.matched] == ["xab a", None]
    assert [stopping.feed("bc"), stopping.matched] == ["b", "ab+"]


def test_a_pattern_is_looked_for_in_the_end_of_a_long_text() -> None:
    stopping = StopRegexMatcher(["x[^x]*y", "end"], window=100)
    assert all(stopping.feed(part) == part for part in ("x", "a" * 200, "y", "an en"))
    assert [stopping.feed("d of"), stopping.matched] == ["d", "end"]


def test_large_patterns_are_looked_for_in_less_text_but_in_all_that_they_can_match() -> None:
    pattern = "x[a-z]{900}!"  # a little over 900 instructions
    stopping = StopRegexMatcher([pattern])
    assert stopping.feed("x" + "a" * 900) == "x" + "a" * 900
    assert [stopping.feed("! more"), stopping.matched] == ["!", pattern]
    instructions = compile_stop_regex(pattern).programsize
    long = StopRegexMatcher([f"{pattern}|begin.*end"])
    assert long.feed("begin" + "a" * 10_000) and long.feed("end") == "end"
    assert long.matched is None and instructions * 2_000 > 1 << 20
    assert StopRegexMatcher(["begin.*end"]).feed("begin" + "a" * 10_000 + "end of").endswith("aend")


def test_an_evil_pattern_costs_time_in_proportion_to_the_text() -> None:
    text = "a" * 5_000 + "c"  # a backtracking matcher needs longer than the universe is old
    assert StopRegexMatcher(["(a|aa)+b"]).feed(text) == text


def test_patterns_end_an_answer_of_tokens() -> None:
    ids = guide().encode("one stop two", add_special_tokens=False)
    params = SamplingParams(stop_regex=("st.p",), stop=("two",))
    assert "".join(streamed(guide(), ids, params)) == "one stop"
    params = SamplingParams(stop_regex=("st.p",), stop=("one",))
    assert "".join(streamed(guide(), ids, params)) == ""


def test_special_tokens_are_left_out_unless_asked_for() -> None:
    ids = guide().encode("hi<|im_end|>", add_special_tokens=False)
    assert "".join(streamed(guide(), ids, SamplingParams())) == "hi"
    assert "".join(streamed(guide(), ids, SamplingParams(skip_special_tokens=False))) == "hi<|im_end|>"
