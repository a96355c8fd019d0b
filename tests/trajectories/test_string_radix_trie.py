"""The published interface: what it answers, refuses and forgets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from radixway.trajectories import StringRadixTrie
from support.letters import END, Letters
from support.odd_texts import guide


def ids_of(text: str) -> list[int]:
    return Letters().encode(text)


def with_letters(**options) -> StringRadixTrie:
    return StringRadixTrie(tokenizer=Letters(), **options)


def insert(trie: StringRadixTrie, text: str, version=None, sampled: int = 0, **more) -> bool:
    """A text of which the model made the last `sampled` letters."""
    count = len(text)
    logp = [0.0] * (count - sampled) + [-0.5] * sampled
    return trie.insert(text, ids_of(text), logp, [0] * (count - sampled) + [1] * sampled, version, **more)


def test_a_text_is_found_as_far_as_it_is_known():
    trie = with_letters()
    assert insert(trie, "ask answer", 3, sampled=6)
    found = trie.find_longest_prefix("ask answer, more")
    assert found.matched_prefix == "ask answer" and found.remaining_string == ", more"
    assert found.token_ids == ids_of("ask answer")
    assert found.logp == [0.0] * 4 + [-0.5] * 6
    assert found.loss_mask == [0] * 4 + [1] * 6
    assert found.generation_versions == [None] * 4 + [3] * 6
    assert not found.ambiguous and "ask answer" in repr(found)


@pytest.mark.parametrize("asked", ["", "nothing at all"])
def test_what_was_never_seen_is_all_that_remains(asked):
    trie = with_letters()
    insert(trie, "ask answer")
    found = trie.find_longest_prefix(asked)
    assert (found.matched_prefix, found.remaining_string) == ("", asked)
    assert found.token_ids == found.logp == found.loss_mask == []


def test_siblings_share_their_prompt_and_a_third_finds_it():
    trie = with_letters()
    for answer in ("yes", "no"):
        insert(trie, "the prompt: " + answer, 1, sampled=len(answer))
    assert trie.cur_cache_size == len("the prompt: yesno")
    assert trie.find_longest_prefix("the prompt: maybe").matched_prefix == "the prompt: "


def test_characters_of_several_bytes_are_never_cut():
    trie = with_letters()
    for text in ("什么是树?🙂", "什么是林?🙃"):
        insert(trie, text)
    found = trie.find_longest_prefix("什么是森")
    assert (found.matched_prefix, found.remaining_string) == ("什么是", "森")
    assert trie.find_longest_prefix("什么是林?🙂").matched_prefix == "什么是林?"


def test_what_stands_half_in_a_surrogate_is_found_too():
    trie = StringRadixTrie()
    assert trie.insert("bad \ud83d text", [1, 2, 3])
    assert trie.find_longest_prefix("bad \ud83d text!").remaining_string == "!"


def test_log_probabilities_and_mask_are_0_where_none_are_given():
    trie = with_letters()
    assert trie.insert("text", ids_of("text"))
    found = trie.find_longest_prefix("text")
    assert found.logp == [0.0] * 4 and found.loss_mask == [0] * 4


@pytest.mark.parametrize(
    ("text", "ids", "fields"),
    [
        ("", [], {}),
        ("", [1], {}),
        ("text", [], {}),
        ("text", [1, 2], {"logp": [0.0]}),
        ("text", [1, 2], {"loss_mask": [0, 0, 0]}),
        ("text", [1, 2], {"versions": [1]}),
        ("text", [1, 2], {"offsets": [4]}),
    ],
)
def test_nothing_is_stored_of_what_is_empty_or_does_not_fit(text, ids, fields):
    trie = StringRadixTrie()
    assert trie.insert(text, ids, **fields) is False
    assert trie.get_stats()["total_entries"] == 0


@pytest.mark.parametrize(
    ("ids", "fields", "named"),
    [
        ([-1], {}, "token ids"),
        ([2**32], {}, "token ids"),
        (["a"], {}, "token ids"),
        ([1.5], {}, "token ids"),
        ([1], {"logp": [None]}, "log-probabilities"),
        ([1], {"logp": ["-1"]}, "log-probabilities"),
        ([1], {"logp": [10**400]}, "log-probabilities"),
        ([1], {"loss_mask": [2]}, "loss_mask"),
        ([1], {"loss_mask": [-1]}, "loss_mask"),
        ([1], {"loss_mask": [0.5]}, "loss_mask"),
        ([1], {"loss_mask": ["1"]}, "loss_mask"),
    ],
)
def test_what_is_no_number_of_its_kind_is_refused_by_name(ids, fields, named):
    trie = StringRadixTrie()
    with pytest.raises(ValueError, match=named):
        trie.insert("text", ids, **fields)
    trie.check()
    assert trie.cur_cache_size == 0


@pytest.mark.parametrize("field", ["max_cache_size", "max_bytes", "gc_threshold_k"])
def test_a_limit_below_1_is_refused_by_name(field):
    with pytest.raises(ValueError, match=field):
        StringRadixTrie(**{field: 0})


def test_a_tokenizer_has_to_encode_and_to_decode():
    with pytest.raises(TypeError, match="encode and decode"):
        StringRadixTrie(tokenizer=object())


def test_what_is_inserted_again_is_there_once():
    trie = with_letters()
    for _ in range(3):
        assert insert(trie, "ask answer", 1, sampled=6)
    assert trie.cur_cache_size == 10 and trie.get_stats()["total_entries"] == 1


def test_without_a_tokenizer_an_edge_is_found_as_a_whole_or_not_at_all():
    trie = StringRadixTrie()
    trie.insert("two words", [1, 2])
    assert trie.find_longest_prefix("two").token_ids == []
    assert trie.find_longest_prefix("two words more").token_ids == [1, 2]


def test_offsets_tell_where_tokens_end():
    trie = StringRadixTrie()
    trie.insert("två ord", [1, 2], offsets=[3, 7])
    trie.insert("两个词", [5, 6], offsets=[2, 3])
    assert trie.find_longest_prefix("två!").token_ids == [1]
    assert trie.find_longest_prefix("两个字").matched_prefix == "两个"


@pytest.mark.parametrize("offsets", [[3, 6], [9, 7], [0, 0], [4, 3]])
def test_offsets_that_do_not_lead_through_the_text_leave_it_indivisible(offsets):
    trie = StringRadixTrie()
    assert trie.insert("one two", [1, 2], offsets=offsets)
    assert trie.find_longest_prefix("one two").token_ids == [1, 2]
    assert trie.find_longest_prefix("one").token_ids == []
    trie.check()


def test_ids_that_do_not_spell_the_text_are_kept_for_the_whole_of_it():
    trie = with_letters()
    trie.insert("text", [1, 2, 3])
    assert trie.find_longest_prefix("text").token_ids == [1, 2, 3]
    assert trie.find_longest_prefix("tex").token_ids == []


def test_of_two_spellings_the_latest_is_told_and_said_to_be_one_of_several():
    trie = StringRadixTrie()
    trie.insert("in|ational", [1, 2], loss_mask=[1, 1], session="a")
    trie.insert("in|ational", [3], loss_mask=[1], session="b")
    found = trie.find_longest_prefix("in|ational")
    assert found.token_ids == [3] and found.ambiguous
    own = trie.find_longest_prefix("in|ational", session="a")
    assert own.token_ids == [1, 2] and not own.ambiguous


def test_versions_are_kept_token_by_token():
    trie = with_letters()
    trie.insert("abcd", ids_of("abcd"), [-1.0] * 4, [0, 1, 1, 1], "9", versions=[None, "7", "7", "9"])
    assert trie.find_longest_prefix("abcd").generation_versions == [None, "7", "7", "9"]


def test_removing_takes_all_that_goes_on_from_a_text():
    trie = with_letters()
    for text in ("common", "common one", "common two", "other"):
        insert(trie, text)
    assert trie.remove("common")
    assert trie.find_longest_prefix("common one").token_ids == []
    assert trie.find_longest_prefix("other").token_ids == ids_of("other")
    trie.check()


@pytest.mark.parametrize("text", ["", "nothing", "common one and more"])
def test_what_is_not_there_cannot_be_removed(text):
    trie = with_letters()
    insert(trie, "common one")
    assert trie.remove(text) is False
    assert trie.cur_cache_size == 10


def test_clear_forgets_texts_and_counts():
    trie = with_letters()
    insert(trie, "text")
    trie.find_longest_prefix("text")
    trie.clear()
    stats = trie.get_stats()
    assert (stats["total_entries"], stats["cur_cache_size"], stats["cache_hits"], stats["hit_rate"]) == (
        0,
        0,
        0,
        0.0,
    )
    assert trie.find_longest_prefix("text").token_ids == []


def test_statistics_count_lookups_tokens_and_bytes():
    trie = with_letters(max_cache_size=500, gc_threshold_k=2, max_bytes=10**6)
    for text in ("a b", "a c", "a b d"):
        insert(trie, text)
    for asked in ("a b d", "a x", "nothing"):
        trie.find_longest_prefix(asked)
    stats = trie.get_stats()
    assert (stats["cache_hits"], stats["cache_misses"], stats["hit_rate"]) == (2, 1, 2 / 3)
    assert stats["cur_cache_size"] == trie.cur_cache_size == len("a b d") + len("c")
    assert stats["total_entries"] == 3, "`a `, `b d` and `c`"
    assert stats["cache_size_mb"] == trie.store.nbytes / 2**20 > 0
    assert (stats["max_cache_size"], stats["max_bytes"], stats["gc_threshold_k"]) == (500, 10**6, 2)


@pytest.mark.parametrize(("old", "used", "now"), [(5, 6, 10), ("5", "6", "10"), ("5", 6, 10), (5, 6, "10")])
def test_what_was_last_used_k_versions_ago_goes(old, used, now):
    trie = with_letters(gc_threshold_k=5)
    insert(trie, "old", old, sampled=1)
    insert(trie, "new", used, sampled=1)
    assert trie.gc_by_weight_version(now) == 1
    assert trie.find_longest_prefix("old").token_ids == []
    assert trie.find_longest_prefix("new").token_ids == ids_of("new")


def test_versions_without_numbers_are_old_by_the_order_in_which_they_came():
    trie = with_letters(gc_threshold_k=2)
    for version in ("pear", "apple", "fig"):
        insert(trie, version, version, sampled=1)
    assert trie.gc_by_weight_version("fig") == 1
    assert trie.find_longest_prefix("pear").token_ids == []
    assert trie.find_longest_prefix("apple").token_ids


def test_a_use_by_newer_weights_keeps_a_text_and_does_not_relabel_it():
    trie = with_letters(gc_threshold_k=2)
    insert(trie, "asked", 1, sampled=2)
    insert(trie, "asked more", 9, sampled=2)
    assert trie.gc_by_weight_version(10) == 0
    assert trie.find_longest_prefix("asked more").generation_versions == [None] * 3 + [1, 1] + [None] * 3 + [
        9,
        9,
    ]


def test_the_bound_in_tokens_holds_after_every_insertion():
    trie = with_letters(max_cache_size=20)
    for number in range(200):
        assert insert(trie, f"{number:05} text", version=number // 10, sampled=2)
        assert trie.cur_cache_size <= 20
    assert trie.find_longest_prefix("00199 text").token_ids == ids_of("00199 text")
    trie.check()


def test_the_bound_in_bytes_holds_after_every_insertion():
    trie = StringRadixTrie(None, max_bytes=8_000)
    for number in range(100):
        assert trie.insert(f"{number:05} text", [number, 1, 2])
        assert trie.store.nbytes <= 8_000
    trie.check()


def test_what_is_larger_than_the_bound_is_not_stored():
    trie = with_letters(max_cache_size=5)
    insert(trie, "small")
    assert insert(trie, "much too large") is False
    assert trie.cur_cache_size <= 5
    trie.check()


def test_a_whole_text_comes_back_as_it_was_recorded():
    trie = with_letters()
    insert(trie, "ask answer", 1, sampled=6)
    assert trie.retrieve_from_text("ask answer") == (
        ids_of("ask answer"),
        [0.0] * 4 + [-0.5] * 6,
        [0] * 4 + [1] * 6,
    )
    assert trie.retrieve_from_text("ask answer", return_logprob=False)[1] == [0.0] * 10


def test_what_is_not_known_of_a_text_is_tokenized_and_not_stored():
    trie = with_letters()
    insert(trie, "ask answer", 1, sampled=6)
    ids, logp, mask = trie.retrieve_from_text("ask answer more")
    assert ids == ids_of("ask answer more")
    assert logp == [0.0] * 4 + [-0.5] * 6 + [0.0] * 5 and mask == [0] * 4 + [1] * 6 + [0] * 5
    assert trie.cur_cache_size == 10
    told = trie.retrieve("ask answer more")
    assert (told.known, told.coverage, told.exact) == (10, 10 / 15, False)
    assert [label.source for _, label in told.trajectory.spans] == ["prompt", "sampled", "retokenized"]


def test_an_empty_text_has_no_tokens():
    with pytest.raises(ValueError, match="empty"):
        with_letters().retrieve_from_text("")


def test_what_is_not_known_cannot_be_told_without_a_tokenizer():
    trie = StringRadixTrie()
    trie.insert("known", [1])
    assert trie.retrieve_from_text("known") == ([1], [0.0], [0])
    with pytest.raises(ValueError, match="no tokenizer"):
        trie.retrieve_from_text("known and more")


def test_an_answer_is_told_with_the_token_that_ended_it():
    trie = with_letters()
    trie.insert("ask answer", [*ids_of("ask answer"), END], None, [0] * 4 + [1] * 7, 1)
    assert trie.find_longest_prefix("ask answer").token_ids == ids_of("ask answer"), "to go on from"
    assert trie.retrieve_from_text("ask answer")[0] == [*ids_of("ask answer"), END]
    ids, _, _ = trie.retrieve_from_text("ask answer next")
    assert ids == [*ids_of("ask answer"), END, *ids_of(" next")]


@pytest.mark.parametrize(
    "tokenizer", [guide(), guide().backend, Letters()], ids=["ours", "tokenizers", "own"]
)
def test_any_tokenizer_tells_where_tokens_end(tokenizer):
    trie = StringRadixTrie(tokenizer=tokenizer)
    encode = tokenizer.encode
    text = "the token tree"
    ids = encode(text) if not hasattr(encode(text), "ids") else encode(text).ids
    trie.insert(text, ids)
    assert 0 < len(trie.find_longest_prefix("the token trie").token_ids) < len(ids)


def test_a_conversation_may_have_more_turns_than_calls_may_nest():
    """Every turn is an edge of its own here."""
    trie = StringRadixTrie(None, gc_threshold_k=1)
    text, ids = "", []
    for turn in range(1_200):
        text += f" turn {turn}"
        ids.append(turn)
        assert trie.insert(text, ids, None, None, 1)
    assert trie.get_stats()["total_entries"] == 1_200
    assert trie.find_longest_prefix(text).token_ids == ids
    assert trie.retrieve_from_text(text)[0] == ids
    assert trie.pretty_print().count("\n") == 1 + 1_200
    trie.check()
    assert trie.gc_by_weight_version(2) == 1_200
    for _ in range(2):
        assert trie.insert(text, ids)
    assert trie.remove(text)
    trie.check()


def test_threads_share_a_trie():
    trie = with_letters(max_cache_size=300)

    def rollout(number: int) -> None:
        text = "shared prompt"
        for turn in range(20):
            text += f" {number} {turn}"
            insert(trie, text, turn, sampled=2, session=number)
            found = trie.find_longest_prefix(text, session=number)
            assert found.token_ids == ids_of(found.matched_prefix)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rollout, range(8)))
    trie.check()
