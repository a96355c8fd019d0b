"""Which known tokens stay when more text follows, and what is made of the rest."""

from __future__ import annotations

import math

import pytest

from radixway.trajectories import RetrievedTokens, StringRadixTrie, Trajectory
from radixway.trajectories.text_match import truncate_position
from support.letters import END, Letters
from support.odd_texts import guide

TOKENIZER = guide()


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def recorded(*turns: tuple[str | list[int], int]) -> tuple[StringRadixTrie, str, list[int]]:
    """A trie with one conversation: texts, or tokens, each with its loss mask; its text and its tokens."""
    ids: list[int] = []
    mask: list[int] = []
    for turn, sampled in turns:
        new = encode(turn) if isinstance(turn, str) else turn
        ids += new
        mask += [sampled] * len(new)
    trie = StringRadixTrie(tokenizer=TOKENIZER)
    text = TOKENIZER.decode(ids)
    assert trie.insert(text, ids, [-0.5 * one for one in mask], mask, 1)
    return trie, text, ids


def test_a_prompt_that_goes_on_within_a_word_is_tokenized_as_a_whole():
    trie, text, ids = recorded(("the to", 0))
    longer = text + "ken tree"
    assert encode(longer)[: len(ids)] != ids, "or this would show nothing"
    told = trie.retrieve(longer)
    assert told.trajectory.ids.tolist() == encode(longer)
    assert (told.known, told.coverage, told.exact) == (0, 0.0, False)


def test_a_prompt_stays_up_to_its_last_special_token():
    trie, text, ids = recorded(("<|im_start|>user\nhi<|im_end|>the intern", 0))
    told = trie.retrieve(text + "ational tree")
    special = max(at for at, token in enumerate(ids) if token in TOKENIZER.special_ids)
    assert told.known == special + 1 and told.trajectory.ids[: told.known].tolist() == ids[: told.known]
    assert told.trajectory.ids[told.known :].tolist() == encode("the international tree")


def test_an_answer_stays_as_it_was_sampled_whatever_follows():
    answer = [*encode(" intern"), *encode("a")]
    trie, text, ids = recorded(("the ", 0), (answer, 1))
    told = trie.retrieve(text + "tional tree")
    assert told.known == len(ids)
    assert told.trajectory.ids.tolist() == [*ids, *encode("tional tree")]
    assert told.trajectory.mask == [0] * (len(ids) - len(answer)) + [1] * len(answer) + [0] * len(
        encode("tional tree")
    )


def test_an_answer_that_the_text_leaves_in_the_middle_is_tokenized_anew():
    first, second = encode(" yes"), [*encode(" in"), *encode("ter"), *encode(" tree")]
    trie, text, ids = recorded(("the ", 0), (first, 1), ("<|im_end|>", 0), (second, 1))
    left = text.removesuffix(" tree")
    told = trie.retrieve(left + "national")
    assert told.known == len(ids) - len(second)
    assert told.trajectory.ids[told.known :].tolist() == encode(" international")


def test_a_whole_text_is_exact_and_a_part_of_it_is_not_whole():
    trie, text, _ = recorded(("the ", 0), (" tree", 1))
    assert trie.retrieve(text).exact and trie.retrieve(text).coverage == 1.0
    assert not trie.retrieve(text + "!").exact


def test_an_answer_of_which_a_log_probability_is_missing_is_not_exact():
    trie = StringRadixTrie(tokenizer=TOKENIZER)
    ids = encode("the tree")
    trie.insert("the tree", ids, [math.nan] * len(ids), [1] * len(ids), 1)
    told = trie.retrieve("the tree")
    assert told.known == len(ids) and not told.exact


def test_of_an_empty_text_nothing_is_known():
    told = RetrievedTokens(Trajectory(), 0)
    assert told.coverage == 0.0 and not told.exact


@pytest.mark.parametrize("tokens", range(8))
def test_a_position_is_as_many_tokens_further_up_as_it_is_said_to_be(tokens):
    trie = StringRadixTrie(tokenizer=Letters())
    for text in ("abcdefg", "abcxyz"):
        trie.insert(text, Letters().encode(text))
    place = trie.store.match_prefix("abcdefg").place
    back = truncate_position(place, tokens)
    assert (back.tokens, back.text, back.strides) == (tokens, tokens, tokens)
    assert back.node.start <= tokens <= back.node.end


def test_a_position_stays_where_hidden_tokens_lie_in_between():
    trie = StringRadixTrie(tokenizer=Letters())
    trie.insert("abcd", [*Letters().encode("ab"), END, *Letters().encode("cd")])
    place = trie.store.match_prefix("abcd").place
    assert truncate_position(place, 4).text == 3
    assert truncate_position(place, 1) == place


def test_a_position_stays_where_tokens_are_not_known_one_by_one():
    trie = StringRadixTrie()
    trie.insert("abcd", [1, 2, 3])
    place = trie.store.match_prefix("abcd").place
    assert truncate_position(place, 2) == place
