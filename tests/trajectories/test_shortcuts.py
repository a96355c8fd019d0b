"""What is read only as far as it is needed, or kept, is what reading everything gives."""

from __future__ import annotations

import json
import random
from array import array
from itertools import zip_longest
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories import TokenLabel, TrajectoryStore, text_match
from radixway.trajectories.retrieval import stable_match
from radixway.trajectories.store import TrajectoryMatch
from radixway.trajectories.text_match import (
    encode_ids,
    is_mid_answer,
    read_trajectory,
    truncate_position,
    within_character,
)
from radixway.trajectories.token_run import STRIDE, last_token_in, pack_tokens
from radixway.trajectories.token_segment import TokenSegment
from trajectories.test_store import PIECES, SPECIAL, Pieces

PROMPT = TokenLabel("prompt", 0)
MADE = TokenLabel("sampled", 1, 1)
TOKENS = st.one_of(st.sampled_from([0, 1, 2, 7, SPECIAL]), st.integers(0, len(PIECES) - 1))
ROWS = st.lists(
    st.tuples(TOKENS, st.sampled_from([PROMPT, MADE, MADE]), st.booleans()), min_size=1, max_size=8
)


def record(store: TrajectoryStore, rows: list[tuple[int, TokenLabel, bool]]) -> str | None:
    """Store tokens, of which special ones may be hidden; return their text, unless it is no text."""
    text = b"".join(PIECES[token] for token, _, shown in rows if shown or token != SPECIAL)
    ids, spans = [token for token, _, _ in rows], [(at + 1, label) for at, (_, label, _) in enumerate(rows)]
    try:
        readable = text.decode()
    except UnicodeDecodeError:
        return None
    if readable:
        given_ = TokenSegment.from_labels(ids, text, [0.0] * len(ids), tuple(spans))
        store.release_hold(store.insert(given_))
    return readable


@st.composite
def stores_and_texts(draw: st.DrawFn) -> tuple[TrajectoryStore, list[str]]:
    store = TrajectoryStore(Pieces())
    recorded = [
        text for rows in draw(st.lists(ROWS, min_size=1, max_size=6)) if (text := record(store, rows))
    ]
    texts = [
        text[: draw(st.integers(0, len(text)))] + draw(st.sampled_from(["", "a", "ab", "<s>", "é", "aab<s>"]))
        for text in recorded
    ]
    return store, [*recorded, *texts]


@given(stores_and_texts())
def test_a_stretch_up_to_a_hidden_token_is_found_as_by_a_search(
    made: tuple[TrajectoryStore, list[str]],
) -> None:
    store, texts = made

    def found(text: str) -> tuple[int, int, list[int]]:
        match = store.match_prefix(text)
        return match.text, match.tokens, store.token_ids(match).tolist()

    at_once = [found(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_match, "_shown_up_to_hidden", lambda *_: None)
        assert at_once == [found(text) for text in texts]


@pytest.mark.parametrize("first", ["", "<s>"])
@pytest.mark.parametrize("second", ["", "<s>"])
@pytest.mark.parametrize("rest", ["", "b", "<s>b", "bab"])
def test_texts_show_hidden_tokens_or_leave_them_out(first: str, second: str, rest: str) -> None:
    store = TrajectoryStore(Pieces())
    recorded = [0, 1, SPECIAL, 2, 7, SPECIAL, 0]  # a b | ab é | a
    assert record(store, [(token, MADE, False) for token in recorded]) == "ababéa"
    text = f"ab{first}abé{second}a"
    match = store.match_prefix(text + rest)
    assert (match.tokens, match.text) == (len(recorded), len(text.encode()))
    part = store.match_prefix(f"ab{first}abé{second}{rest}")
    known = 6 if second or rest else 5  # a hidden token is passed where the text goes on
    assert part.tokens == known and store.token_ids(part).tolist() == recorded[:known]


def stable_by_reading_all(found: TrajectoryMatch, text: bytes) -> tuple[int, int]:
    place = found.place
    known = read_trajectory(SimpleNamespace(node=place.node, length=place.strides))
    spans, is_complete = known.spans, not is_mid_answer(place)
    ends = [0]
    for (upto, label), after in zip_longest(spans, spans[1:]):
        goes_on = after is not None and after[1].source == "sampled"
        if label.source == "sampled" and not goes_on and (is_complete or after is not None):
            ends.append(upto)
    for end in ends[::-1]:
        stays = next((at for at in range(len(known.ids), end, -1) if known.ids[at - 1] == SPECIAL), end)
        stable = truncate_position(place, stays)
        if not within_character(text, stable.text):
            break
    return stable.tokens, stable.text


@given(stores_and_texts())
def test_what_stays_is_found_from_the_end_as_from_the_whole_path(
    made: tuple[TrajectoryStore, list[str]],
) -> None:
    store, texts = made
    for text in texts:
        found = store.match_prefix(text)
        stable = stable_match(found, Pieces(), text.encode())
        assert (stable.tokens, stable.text) == stable_by_reading_all(found, text.encode())


def test_the_ids_of_a_long_shared_beginning_are_those_that_are_stored() -> None:
    store, rng = TrajectoryStore(Pieces()), random.Random(0)
    shared = [0, *rng.choices([0, 1], k=600)]
    for answer in ([2, 3], [3, 3], [2, 0]):
        for size in (601, 300):
            ids = [*shared[:size], *answer]
            spans = ((size, PROMPT), (len(ids), MADE))
            text = b"".join(PIECES[token] for token in ids)
            hold = store.insert(TokenSegment.from_labels(ids, text, None, spans))
            for _ in range(2):
                assert json.loads(b"[%b]" % encode_ids(hold.node)) == ids
            store.release_hold(hold)
    empty = store.hold_path(store.match_prefix("x"))
    assert encode_ids(empty.node) == b""


@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.data())
def test_the_last_wanted_token_of_a_stretch_is_found(ids: list[int], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(ids)))
    end = data.draw(st.integers(begin, len(ids)))
    expected = max((at + 1 for at in range(begin, end) if ids[at] in (4, 5)), default=0)
    key = pack_tokens(array("I", ids))
    assert len(key) == STRIDE * len(ids) and last_token_in(key, begin, end, frozenset({4, 5})) == expected
