"""The store against a plain list of everything that was ever recorded."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.trajectories import StoreFullError, TokenLabel, TrajectoryStore
from radixway.trajectories.token_segment import TokenSegment

PIECES = [b"a", b"b", b"ab", b"ba", b"aab", b"\xc3", b"\xa9", "é".encode(), b"", b"<s>"]
SPECIAL = PIECES.index(b"<s>")


class Pieces:
    """A tokenizer of ten tokens that spell many texts in many ways."""

    def __init__(self) -> None:
        self.token_bytes = dict(enumerate(PIECES))
        self.special_ids = frozenset({SPECIAL})


@dataclass
class Recorded:
    ids: list[int]
    logprobs: list[float]
    labels: list[TokenLabel]

    def text(self, count: int) -> bytes:
        """What the first `count` tokens stand for, all of them shown."""
        return b"".join(PIECES[token] for token in self.ids[:count])


def as_given(recorded: Recorded) -> TokenSegment:
    spans = tuple((at + 1, label) for at, label in enumerate(recorded.labels))
    return TokenSegment.from_labels(recorded.ids, recorded.text(len(recorded.ids)), recorded.logprobs, spans)


LABELS = [
    TokenLabel("prompt", 0),
    TokenLabel("sampled", 1, 1),
    TokenLabel("sampled", 1, "2"),
    TokenLabel("sampled", 0, 1),
]
tokens = st.tuples(
    st.integers(0, len(PIECES) - 1), st.sampled_from([0.0, -0.5, -1.0]), st.sampled_from(LABELS)
)


@st.composite
def dialogues(draw):
    """Recordings that often go on from, or part from, one of those before."""
    made: list[Recorded] = []
    for _ in range(draw(st.integers(1, 12))):
        rows = draw(st.lists(tokens, min_size=1, max_size=6))
        kept = []
        if made and draw(st.booleans()):
            before = draw(st.sampled_from(made))
            cut = draw(st.integers(0, len(before.ids)))
            kept = list(zip(before.ids, before.logprobs, before.labels, strict=True))[:cut]
        rows = [*kept, *rows]
        made.append(Recorded(*(list(column) for column in zip(*rows, strict=True))))
    return made


def is_readable(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def same_record(told, recorded: Recorded) -> bool:
    """Are the told tokens the first ones of this recording? Of a prompt's tokens only the ids count."""
    count = len(told.ids)
    if list(told.ids) != recorded.ids[:count]:
        return False
    labels = [label for (end, label), start in spans(told) for _ in range(start, end)]
    return all(
        mine.source != "sampled" or (label.version == mine.version and logprob == known)
        for label, logprob, mine, known in zip(
            labels, told.logprobs, recorded.labels, recorded.logprobs, strict=False
        )
    )


def spans(told):
    return zip(told.spans, (0, *(end for end, _ in told.spans)), strict=False)


@given(dialogues(), st.data())
def test_what_is_found_is_the_longest_beginning_that_somebody_recorded(recordings, data):
    store = TrajectoryStore(Pieces())
    kept = []
    for recorded in recordings:
        if not recorded.text(len(recorded.ids)):
            continue
        store.release_hold(store.insert(as_given(recorded)))
        store.check()
        kept.append(recorded)
    for recorded in kept:
        text = recorded.text(len(recorded.ids))
        if not is_readable(text):
            continue
        tail = data.draw(st.sampled_from(["", "a", "ab", "é", "<s>", "x"]))
        asked = text.decode() + tail
        found = store.match_prefix(asked)
        told = store.trajectory(found)
        assert found.tokens == len(told.ids) == len(told.mask) == len(told.logprobs)
        assert any(same_record(told, other) for other in kept), "this was put together from two recordings"
        assert told_text(told) == asked.encode()[: found.text]
        assert found.text >= len(text), "more of this text is known"
        longest = max(longest_readable(other, asked.encode()) for other in kept)
        assert found.text == longest


def told_text(told) -> bytes:
    return b"".join(PIECES[token] for token in told.ids)


def longest_readable(recorded: Recorded, asked: bytes) -> int:
    return max(
        (
            len(text)
            for count in range(len(recorded.ids) + 1)
            if asked.startswith(text := recorded.text(count)) and is_readable(text)
        ),
        default=0,
    )


@given(dialogues())
def test_a_session_finds_its_own_records(recordings):
    """Whatever others recorded of the same text, and whenever."""
    store = TrajectoryStore(Pieces())
    for number, recorded in enumerate(recordings):
        if recorded.text(len(recorded.ids)):
            store.release_hold(store.insert(as_given(recorded), session=number))
    for number, recorded in enumerate(recordings):
        text = recorded.text(len(recorded.ids))
        if not text or not is_readable(text):
            continue
        found = store.match_prefix(text.decode(), number, hidden=True)
        told = store.trajectory(found)
        assert not found.ambiguous or found.tokens != len(recorded.ids)
        if found.tokens == len(recorded.ids) and PIECES[recorded.ids[-1]]:
            assert same_record(told, recorded)


@given(dialogues(), st.integers(3, 30), st.data())
def test_the_bound_holds_and_what_is_held_stays(recordings, most, data):
    store = TrajectoryStore(Pieces(), max_tokens=most)
    held = []
    for version, recorded in enumerate(recordings):
        if not recorded.text(len(recorded.ids)):
            continue
        try:
            hold = store.insert(as_given(recorded), version)
        except StoreFullError:
            continue
        if data.draw(st.booleans()):
            held.append((hold, recorded))
        else:
            store.release_hold(hold)
        if data.draw(st.booleans()):
            store.collect_versions(version, 2)
        assert store.tokens <= most
        for hold, kept in held:
            told = store.trajectory(hold)
            assert len(told.ids) == len(kept.ids) and same_record(told, kept)
    for hold, _ in held:
        store.release_hold(hold)
    store.check()
    store.clear()
    assert (store.tokens, store.nodes, store.nbytes) == (0, 0, 0)


def test_a_text_may_leave_out_a_stop_token_or_spell_it():
    store = TrajectoryStore(Pieces())
    prompt, made = TokenLabel("prompt", 0), TokenLabel("sampled", 1, 7)
    given_ = TokenSegment.from_labels([2, 0, SPECIAL], b"aba", [0, -1, -2], ((1, prompt), (3, made)))
    store.release_hold(store.insert(given_))
    assert list(store.token_ids(store.match_prefix("aba"))) == [2, 0], "a prefix to go on from"
    assert list(store.token_ids(store.match_prefix("aba", hidden=True))) == [2, 0, SPECIAL], (
        "a whole trajectory"
    )
    assert list(store.token_ids(store.match_prefix("aba<s>"))) == [2, 0, SPECIAL]
    for asked, used in (("aba|b", 3), ("aba<s>|b", 6)):
        found = store.match_prefix(asked)
        assert list(store.token_ids(found)) == [2, 0, SPECIAL] and found.text == used
    longer = TokenSegment.from_labels(
        [2, 0, SPECIAL, 1, SPECIAL],
        b"abab",
        [0, -1, -2, 0, -3],
        ((1, prompt), (3, made), (4, prompt), (5, made)),
    )
    store.release_hold(store.insert(longer))
    assert list(store.token_ids(store.match_prefix("abab", hidden=True))) == longer.ids.tolist()
    assert list(store.token_ids(store.match_prefix("aba<s>b<s>a"))) == longer.ids.tolist()
    store.check()


def test_equal_answers_of_two_weight_versions_are_two_records():
    store = TrajectoryStore(Pieces())
    for version in (1, 2):
        labels = ((1, TokenLabel("prompt", 0)), (2, TokenLabel("sampled", 1, version)))
        store.release_hold(
            store.insert(TokenSegment.from_labels([0, 1], b"ab", [0, -0.5], labels), version, session=version)
        )
    assert store.match_prefix("ab").ambiguous
    assert store.trajectory(store.match_prefix("ab")).versions == [None, 2], "the latest"
    assert store.trajectory(store.match_prefix("ab", 1)).versions == [None, 1]
    assert not store.match_prefix("ab", 1).ambiguous
    store.check()


def test_what_somebody_else_says_again_is_context_and_shares_the_record():
    store = TrajectoryStore(Pieces())
    sampled = TokenSegment.from_labels(
        [0, 1], b"ab", [0, -0.5], ((1, TokenLabel("prompt", 0)), (2, TokenLabel("sampled", 1, 3)))
    )
    store.release_hold(store.insert(sampled))
    prompt = TokenSegment.from_labels([0, 1, 0], b"aba", None, ((3, TokenLabel("prompt", 0)),))
    store.release_hold(store.insert(prompt))
    assert store.tokens == 3
    assert store.trajectory(store.match_prefix("aba")).mask == [0, 1, 0]


def test_collection_goes_by_last_use_and_never_relabels():
    store = TrajectoryStore(Pieces())
    made = TokenSegment.from_labels([0, 1], b"ab", [-1, -1], ((2, TokenLabel("sampled", 1, "v1")),))
    store.release_hold(store.insert(made, "v1"))
    other = TokenSegment.from_labels([1, 1], b"bb", [-1, -1], ((2, TokenLabel("sampled", 1, "v1")),))
    store.release_hold(store.insert(other, "v1"))
    store.release_hold(store.insert(made, "v9"))
    for version in ("v9", "v10"):
        store.versions.add_version(version)
    assert store.collect_versions("v10", 2) == 1
    assert not store.match_prefix("bb").tokens
    assert store.trajectory(store.match_prefix("ab")).versions == ["v1", "v1"]


def test_nothing_makes_room_where_all_is_held():
    store = TrajectoryStore(Pieces(), max_tokens=3)
    hold = store.insert(TokenSegment.from_mask([0, 1, 0], b"aba", None, None, None))
    with pytest.raises(StoreFullError):
        store.insert(TokenSegment.from_mask([1, 1], b"bb", None, None, None))
    store.check()
    store.release_hold(hold)
    store.release_hold(store.insert(TokenSegment.from_mask([1, 1], b"bb", None, None, None)))
    assert store.tokens == 3, "the other one lost its end only"
    store.check()


def test_answers_to_one_prompt_that_were_all_under_way_in_an_empty_store_share_it():
    store = TrajectoryStore(Pieces())
    labels = ((2, TokenLabel("prompt", 0)), (4, TokenLabel("sampled", 1, "v1")))
    answers = {"s": [0, 1, 2, 2], "t": [0, 1, 2, 3], "u": [0, 1, 4, 2], "v": [0, 1, 3, 3], "w": [0, 1, 0, 0]}
    holds = {
        session: store.hold_path(store.match_prefix("ab")) for session in answers
    }  # none is recorded yet
    for session, ids in answers.items():
        text = b"".join(PIECES[token] for token in ids)
        made = TokenSegment.from_labels(ids, text, [0, 0, -0.5, -0.5], labels)
        store.release_hold(store.extend_path(holds[session], made, "v1", session=session))
        store.check()
    for session, ids in answers.items():
        found = store.match_prefix("".join(PIECES[token].decode() for token in ids), session)
        assert store.token_ids(found).tolist() == ids
