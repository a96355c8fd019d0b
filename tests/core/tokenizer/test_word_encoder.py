"""The tokens of a text are those of its words, where the tokenizer's words do not depend on each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from radixway.core.tokenizer import Tokenizer, WordEncoder
from support.odd_texts import guide
from support.small_tokenizers import MIXED_TEXT, byte_level_bpe, sentencepiece_bpe

LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORDS = st.sampled_from(
    [
        *(
            "the",
            " of",
            "and ",
            " ",
            "  ",
            "\n",
            "\t",
            "\r\n",
            " token",
            "international",
            "It's",
            "'s",
            " 's",
            "'",
        ),
        *(
            "A",
            "é",
            "e\u0301",
            "\u0301",
            "日本",
            " 語",
            "12",
            " 345",
            "x1",
            "1x",
            "-",
            "\u00a0",
            "\u017f",
            "don't",
        ),
        *("<|im_start|>", "<|im_end|>", "<|im_", "|>", ".", ", ", "🙂", "\u200d", "_", "a_b", "ﬁ", "\u212a"),
    ]
)
TEXTS = st.lists(WORDS | st.text(alphabet="ab '\n\u0301", max_size=4), max_size=30).map("".join)


def gpt2() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([MIXED_TEXT], trainer)
    return backend


def llama3() -> Backend:
    backend = byte_level_bpe(["<|im_end|>"])
    split = pre_tokenizers.Split(Regex(LLAMA_PATTERN), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return backend


def normalizing() -> Backend:
    backend = byte_level_bpe(["<|im_start|>", "<|im_end|>"])
    backend.normalizer = normalizers.NFC()
    return backend


TOKENIZERS = {
    "qwen": Tokenizer(byte_level_bpe(["<|im_start|>", "<|im_end|>"])),
    "llama3": Tokenizer(llama3()),
    "gpt2": Tokenizer(gpt2()),
    "nfc": Tokenizer(normalizing()),
    "guide": guide(),
}


@pytest.mark.parametrize("family", TOKENIZERS)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
def test_words_have_the_tokens_that_they_have_in_the_text(family: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[family]
    encoder = WordEncoder.for_tokenizer(tokenizer)
    assert encoder is not None
    for text in [*texts, *texts]:  # new words, and then the same ones kept
        assert encoder.encode(text) == tokenizer.encode(text, add_special_tokens=False)


def changed(name: str) -> Backend:
    backend = byte_level_bpe(["<|im_end|>"])
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name == "another pattern":
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"\w+ \w+|\s"), "isolated"), byte_level]
        )
    elif name == "no words":
        backend.pre_tokenizer = byte_level
    elif name == "a token of two words":
        backend.add_tokens([AddedToken("of the")])
    elif name == "a token that takes the space behind it":
        backend.add_special_tokens([AddedToken("<mask>", rstrip=True)])
    elif name == "dropout":
        backend.model.dropout = 0.1
    elif name == "a normalizer":
        backend.normalizer = normalizers.Replace(" ", "_")
    elif name == "sentencepiece":
        return sentencepiece_bpe()
    return backend


@pytest.mark.parametrize(
    "name",
    [
        *("another pattern", "no words", "a token of two words", "a token that takes the space behind it"),
        *("dropout", "a normalizer", "sentencepiece"),
    ],
)
def test_other_tokenizers_have_no_such_words(name: str) -> None:
    assert WordEncoder.for_tokenizer(Tokenizer(changed("none"))) is not None
    assert WordEncoder.for_tokenizer(Tokenizer(changed(name))) is None


def test_a_word_is_encoded_once_and_no_more_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(byte_level_bpe([]))
    encoder, encode = WordEncoder(tokenizer, max_words=3), tokenizer.encode
    calls: list[str] = []

    def count_and_encode(text: str, *, add_special_tokens: bool = True) -> list[int]:
        calls.append(text)
        return encode(text, add_special_tokens=add_special_tokens)

    monkeypatch.setattr(tokenizer, "encode", count_and_encode)
    for text in ("a b", "a b", "c d", "a b"):
        assert encoder.encode(text) == encode(text, add_special_tokens=False)
    assert calls == ["a", " b", "c", " d", "a", " b"]  # with the fourth word the first three are forgotten
