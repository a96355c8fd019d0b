"""Texts are cut where no token changes, and what was tokenized once is not tokenized again."""

import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from radixway.core.tokenizer import PiecewiseEncoder, Tokenizer
from radixway.core.tokenizer.piecewise import SpecialTokenSplitter
from support.small_tokenizers import byte_level_bpe, sentencepiece_bpe

FAMILIES = ["qwen", "llama3", "llama2"]
SCRAPS = [
    *(
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|begin_of_text|>",
        "<|eot_id|>",
        "<|start_header_id|>",
    ),
    *("<s>", "</s>", "<unk>", "<tool_call>", "<|im_", "im_end|>", "<", "|>", "<<", "</"),
    *(
        "user\n",
        " ",
        "  \n",
        "\t",
        "",
        "a",
        "The quick",
        " brown",
        "前缀缓存",
        "é",
        "e\u0301",
        "😀👩‍👩‍👧",
        "3.14",
    ),
]
TEXTS = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=8), max_size=25).map("".join)


def encoded(encoder: PiecewiseEncoder, text: str, add_special_tokens: bool = False) -> list[int]:
    unfinished = encoder.lookup_pieces(text, add_special_tokens=add_special_tokens)
    return array("I", encoder.assemble_ids(unfinished, encoder.encode_missing(unfinished))).tolist()


@pytest.fixture(scope="module")
def loaded(model_dirs) -> dict[str, Tokenizer]:
    return {family: Tokenizer.load(model_dirs[family]) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), special=st.booleans())
def test_pieces_make_the_tokens_of_the_whole(loaded, family, texts, special):
    tokenizer = loaded[family]
    encoder = PiecewiseEncoder(tokenizer, {})
    for text in [*texts, "".join(texts)]:
        try:
            whole = tokenizer.encode(text, add_special_tokens=special)
        except ValueError:
            with pytest.raises(ValueError):
                encoded(encoder, text, special)
        else:
            assert encoded(encoder, text, special) == whole


def awkward_tokenizer(flags: list[tuple[str, dict[str, bool]]]) -> Tokenizer:
    backend = byte_level_bpe([], vocab_size=300)
    backend.add_tokens(
        [AddedToken(text, **{"special": True, "normalized": False, **how}) for text, how in flags]
    )
    return Tokenizer(backend)


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ([("<x>", {"lstrip": True})], "a  <x>"),
        ([("<x>", {"single_word": True})], "a<x>"),
        ([("<x>", {}), ("<x>>", {"lstrip": True})], "a  <x>>"),
        ([("x>", {}), ("<<", {"single_word": True})], "<<x>"),
        ([(" <x>", {}), ("<y>", {"rstrip": True})], "<y>  <x>"),
        ([("<x>", {}), ("<<x", {"special": False})], "<<x>"),
        ([("<x>", {}), ("<<x>>", {"special": False})], "<<x>>"),
    ],
)
def test_a_token_that_is_not_sure_to_be_found_is_no_place_to_cut(added, text):
    tokenizer = awkward_tokenizer(added)
    whole = tokenizer.encode(text, add_special_tokens=False)
    assert encoded(PiecewiseEncoder(tokenizer, {}), text) == whole


FLAGS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("lstrip", "rstrip", "single_word", "normalized")}
)


@given(
    added=st.dictionaries(st.text("ab< ", min_size=1, max_size=3), FLAGS, min_size=1, max_size=4),
    data=st.data(),
)
def test_tokens_that_overlap_or_reach_over_spaces_are_not_cut_wrongly(added, data):
    tokenizer = awkward_tokenizer(list(added.items()))
    encoder = PiecewiseEncoder(tokenizer, {})
    scraps = st.sampled_from([*added, " ", "a", "  ", "b<"])
    for _ in range(5):
        text = data.draw(st.lists(scraps, min_size=2, max_size=6).map("".join))
        try:
            whole = tokenizer.encode(text, add_special_tokens=False)
        except ValueError:  # the library panics at some tokens that begin with a space
            continue
        assert encoded(encoder, text) == whole


@given(text=TEXTS)
def test_a_space_in_front_of_the_first_text_alone_stays_there(text):
    backend = sentencepiece_bpe()
    assert json.loads(backend.to_str())["pre_tokenizer"]["prepend_scheme"] == "first"
    tokenizer = Tokenizer(backend)
    try:
        whole = tokenizer.encode(text, add_special_tokens=False)
    except ValueError:
        return
    assert encoded(PiecewiseEncoder(tokenizer, {}), text) == whole


def test_only_what_is_new_is_tokenized(loaded):
    encoder = PiecewiseEncoder(loaded["qwen"], {})
    said = "<|im_start|>user\nThe quick brown fox<|im_end|>\n"
    assert encoder.lookup_pieces(said, add_special_tokens=False).characters == len(said)
    encoded(encoder, said)
    more = "<|im_start|>assistant\njumps"
    assert encoder.lookup_pieces(said + more, add_special_tokens=False).characters == len(more)


def test_a_cut_is_in_front_of_special_tokens_alone(loaded):
    text = "a<tool_call>b<|im_start|>c<|im_end|>"
    assert SpecialTokenSplitter(loaded["qwen"].backend).split_text(text) == [
        "a<tool_call>b",
        "<|im_start|>c",
        "<|im_end|>",
    ]


def test_tokenizers_that_share_a_cache_do_not_share_entries(loaded):
    cache = {}
    one, other = (PiecewiseEncoder(loaded[family], cache) for family in ("qwen", "llama2"))
    text = "The quick brown fox"
    assert encoded(one, text) == loaded["qwen"].encode(text, add_special_tokens=False)
    assert encoded(other, text) == loaded["llama2"].encode(text, add_special_tokens=False)
