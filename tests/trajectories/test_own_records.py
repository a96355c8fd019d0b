"""Of several records of one text, a session gets its own, and is told where that is gone."""

from __future__ import annotations

import pytest

from radixway.trajectories import StoreFullError, StringRadixTrie, TokenLabel, TrajectoryStore
from radixway.trajectories.retrieval import stable_match
from radixway.trajectories.token_segment import TokenSegment
from support.odd_texts import guide
from trajectories.test_store import SPECIAL, Pieces

PROMPT = TokenLabel("prompt", 0)
MADE = TokenLabel("sampled", 1, 1)


def record(store: TrajectoryStore, session: str, prompt: list[int], made: list[int], text: bytes) -> None:
    spans = ((len(prompt), PROMPT), (len(prompt) + len(made), MADE))
    logprobs = [0.0] * len(prompt) + [-1.0] * len(made)
    given = TokenSegment.from_labels([*prompt, *made], text, logprobs, spans)
    store.release_hold(store.insert(given, session=session))


def ids(store: TrajectoryStore, text: str, session: str) -> list[int]:
    found = store.match_prefix(text, session, hidden=True)
    assert not found.ambiguous
    return store.token_ids(found).tolist()


def test_its_own_spelling_is_history_though_more_is_known_of_anothers():
    store = TrajectoryStore(Pieces())
    record(store, "mine", [0], [2], b"aab")  # a, ab
    record(store, "other", [0], [0, 1], b"aab")  # a, a, b
    record(store, "other", [0, 0, 1, 3], [0], b"aabbaa")
    assert store.token_ids(store.match_prefix("aabba", "mine")).tolist() == [0, 2]


def test_its_own_answer_is_history_though_anothers_went_on_from_it():
    store = TrajectoryStore(Pieces())
    record(store, "mine", [0], [1, 0], b"aba")
    record(store, "longer", [0], [1, 0, 0, 0], b"abaaa")  # on the same edge
    record(store, "third", [2, 0, 0], [1], b"abaab")
    found = store.match_prefix("abaab", "mine")
    assert store.token_ids(found).tolist()[:3] == [0, 1, 0]
    assert store.token_ids(stable_match(found, Pieces(), b"abaab")).tolist() == [0, 1, 0]


def test_each_of_several_samples_of_one_session_is_found():
    store = TrajectoryStore(Pieces())
    record(store, "s", [0], [1], b"ab")
    record(store, "s", [0], [2], b"aab")
    assert ids(store, "ab", "s") == [0, 1] and ids(store, "aab", "s") == [0, 2]


def test_an_answer_ends_as_it_did_in_that_session():
    store = TrajectoryStore(Pieces())
    record(store, "stopped", [0], [1, SPECIAL], b"ab")
    record(store, "cut", [0], [1], b"ab")
    assert ids(store, "ab", "stopped") == [0, 1, SPECIAL] and ids(store, "ab", "cut") == [0, 1]


def test_a_session_whose_record_is_gone_does_not_get_anothers_for_its_own():
    store = TrajectoryStore(Pieces(), max_tokens=5)
    record(store, "mine", [0], [2], b"aab")
    record(store, "other", [0], [0, 1], b"aab")
    assert not store.match_prefix("aab", "mine").ambiguous
    store.mark_used(store.match_prefix("aab", "other"))
    record(store, "third", [1], [1], b"bb")
    assert store.match_prefix("aab", "mine").ambiguous and store.match_prefix("aab", "other").tokens == 3
    store.check()


def test_what_a_stop_string_hides_belongs_to_the_answer_though_another_shows_it():
    store = TrajectoryStore(Pieces())
    record(store, "shown", [0], [1, 0, 1], b"abab")
    record(store, "stopped", [0], [1, 0, 1], b"ab")  # at "ab"
    assert ids(store, "ab", "stopped") == [0, 1, 0, 1] and ids(store, "abab", "shown") == [0, 1, 0, 1]
    store.check()


def test_an_answer_that_one_of_two_weights_broke_off_within_a_character_is_not_cut_there():
    trie = StringRadixTrie(None, tokenizer=(tokenizer := guide()))
    raw = "x🙂".encode()
    pieces = [tokenizer.encode("x")[0], *(bytes_to_token(tokenizer, byte) for byte in raw[1:])]
    versions = [None, 1, 1, 2, 2]
    assert trie.insert("x🙂", pieces, [0.0] + [-1.0] * 4, [0, 1, 1, 1, 1], 2, versions=versions)
    assert trie.retrieve("x🙂").trajectory.versions == versions
    told = trie.retrieve("x🙃")
    assert bytes_of(tokenizer, told.trajectory.ids) == "x🙃".encode() and not told.exact


def test_a_stretch_of_a_prompt_that_somebody_sampled_ends_at_a_character():
    trie = StringRadixTrie(None, tokenizer=(tokenizer := guide()))
    first, *more = (bytes_to_token(tokenizer, byte) for byte in "🙂".encode())
    x = tokenizer.encode("x")[0]
    assert trie.insert("x🙂", [x, first, *more], [0, -1, 0, 0, 0], [0, 1, 0, 0, 0], 1)
    told = trie.retrieve("x🙂 and more")
    assert bytes_of(tokenizer, told.trajectory.ids) == "x🙂 and more".encode()


def bytes_to_token(tokenizer, byte: int) -> int:
    return next(token for token in range(tokenizer.size) if tokenizer.token_bytes[token] == bytes([byte]))


def bytes_of(tokenizer, ids) -> bytes:
    return b"".join(tokenizer.token_bytes[token] for token in ids)


def test_a_text_that_leaves_out_a_stop_token_leads_on_where_an_edge_ends_within_a_character():
    trie = StringRadixTrie(None, tokenizer=(tokenizer := guide()))
    x, stop = tokenizer.encode("x")[0], min(tokenizer.eos_token_ids)
    for smile in "🙂🙃":
        spelt = [bytes_to_token(tokenizer, byte) for byte in smile.encode()]
        assert trie.insert(f"xx{smile}", [x, x, stop, *spelt], [0, -1, -1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0])
    for smile in "🙂🙃":
        assert trie.retrieve(f"xx{smile}").exact


def test_answers_that_other_weights_went_on_with_differ_where_their_log_probabilities_do():
    store = TrajectoryStore(Pieces())
    for session, logprob, spans in (
        ("a", -1.0, ((1, PROMPT), (4, MADE))),
        ("b", -2.0, ((1, PROMPT), (3, MADE), (4, MADE._replace(version=2)))),
    ):
        given = TokenSegment.from_labels([0, 1, 0, 1], b"abab", [0.0, logprob, -1.0, -1.0], spans)
        store.release_hold(store.insert(given, session=session))
    told = store.trajectory(store.match_prefix("abab", "b"))
    assert told.logprobs.tolist() == [0, -2, -1, -1] and told.versions == [None, 1, 1, 2]


def test_a_session_goes_on_from_its_own_record_though_another_has_gone_on_from_it():
    store = TrajectoryStore(Pieces())
    record(store, "mine", [0], [1], b"ab")
    given = TokenSegment.from_labels([0, 1], b"ab", [0.0, -2.0], ((1, PROMPT), (2, MADE)))
    store.release_hold(store.insert(given, session="other"))
    longer = store.hold_path(store.match_prefix("ab", "mine"))
    more = TokenSegment.from_labels([0, 0], b"aa", [0.0, -3.0], ((1, PROMPT), (2, MADE)))
    store.release_hold(store.extend_path(longer, more, session="third"))
    longer = store.hold_path(store.match_prefix("ab", "other"))
    store.release_hold(store.extend_path(longer, more, session="other"))
    assert store.trajectory(store.match_prefix("abab", "mine")).logprobs.tolist()[:2] == [0, -1]
    assert store.trajectory(store.match_prefix("abaa", "mine")).logprobs.tolist()[:2] == [0, -1]
    store.check()


def test_a_session_whose_answer_found_no_room_does_not_get_anothers():
    store = TrajectoryStore(Pieces(), max_tokens=4)
    record(store, "other", [0], [2], b"aab")
    held = store.hold_path(store.match_prefix("aab", "other"))
    with pytest.raises(StoreFullError):
        record(store, "mine", [0], [0, 1, 0, 1], b"aabab")
    assert store.match_prefix("aab", "mine").ambiguous
    store.release_hold(held)
