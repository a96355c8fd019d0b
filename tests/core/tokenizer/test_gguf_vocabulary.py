"""A GGUF file's tokenizer is llama.cpp's, on every text of the reference."""

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from radixway.bundled import find_smollm2
from radixway.core.gguf_file import GgufError, GgufFile
from radixway.core.tokenizer import Tokenizer, TokenizerError, read_sampling_defaults
from radixway.core.tokenizer.gguf_vocabulary import GgufVocabulary
from support.gguf_models import BYTE_TOKENS, write_gguf
from support.tiny_models import random_model

DATA = Path(__file__).parents[2] / "data" / "gguf"
TEXTS = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))["texts"]
TOKENS = json.loads((DATA / "smollm2.json").read_text(encoding="utf-8"))["tokens"]
NOT_COMPOSED = "a\u0301 combining"
"""Qwen's own tokenizer.json composes it (NFC), as we do; llama.cpp leaves it as it is."""


@cache
def smollm2() -> GgufFile:
    path = find_smollm2()
    assert path is not None
    return GgufFile.read(path)


@pytest.fixture
def tiny_file(tmp_path: Path) -> Any:
    """Writes a tiny model's file with other metadata."""

    def write(**metadata: Any) -> Path:
        random_model("qwen3").save_pretrained(tmp_path / "model")
        return write_gguf(tmp_path / "model", tmp_path / "model.gguf", **metadata)

    return write


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_are_those_of_llama_cpp(kind: str) -> None:
    file = smollm2()
    other = replace(file, metadata={**file.metadata, "tokenizer.ggml.pre": kind})
    backend = GgufVocabulary(other).build_backend()
    assert len(TEXTS) > 100
    for text, ids in zip(TEXTS, TOKENS[kind], strict=True):
        if kind == "qwen2" and text == NOT_COMPOSED:
            ids = backend.encode("á combining").ids
        assert backend.encode(text, add_special_tokens=False).ids == ids, text


@pytest.fixture(scope="module")
def sentences() -> sentencepiece.SentencePieceProcessor:
    """A model of SentencePiece's own, trained as Llama's was: BPE with bytes for what has no token."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(Path(__file__).read_text(encoding="utf-8").splitlines()),
        model_writer=model,
        model_type="bpe",
        vocab_size=600,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def describe_sentences(model: sentencepiece.SentencePieceProcessor) -> dict[str, Any]:
    """Return what llama.cpp's converter writes of `model`."""

    def kind(i: int) -> int:
        return 6 if model.is_byte(i) else 3 if model.is_control(i) else 2 if model.is_unknown(i) else 1

    ids = range(model.get_piece_size())
    described = {
        "model": "llama",
        "pre": "default",
        "tokens": [model.id_to_piece(i) for i in ids],
        "scores": [model.get_score(i) for i in ids],
        "token_type": [kind(i) for i in ids],
        "merges": None,
        "bos_token_id": model.bos_id(),
        "eos_token_id": model.eos_id(),
        "unknown_token_id": model.unk_id(),
    }
    return {f"tokenizer.ggml.{key}": value for key, value in described.items()}


def test_tokens_are_those_of_sentencepiece(
    tiny_file: Any, sentences: sentencepiece.SentencePieceProcessor
) -> None:
    tokenizer = Tokenizer.load(tiny_file(**describe_sentences(sentences)))
    for text in [*TEXTS, *Path(__file__).read_text(encoding="utf-8").splitlines()]:
        ids = sentences.encode(text)
        assert tokenizer.encode(text, add_special_tokens=False) == ids, text
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("") == [sentences.bos_id()]
    assert tokenizer.eos_token_ids == {sentences.eos_id()}
    without_space = {"tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.add_bos_token": False}
    tokenizer = Tokenizer.load(tiny_file(**describe_sentences(sentences), **without_space))
    assert tokenizer.encode("e") == [sentences.piece_to_id("e")]
    assert tokenizer.decode(tokenizer.encode(" lead")) == " lead"


def test_a_vocabulary_without_a_score_for_each_token_is_refused(
    tiny_file: Any, sentences: sentencepiece.SentencePieceProcessor
) -> None:
    described = describe_sentences(sentences) | {"tokenizer.ggml.scores": [0.0]}
    with pytest.raises(TokenizerError, match="600 tokens and a score for 1 of them"):
        Tokenizer.load(tiny_file(**described))


def test_texts_come_back_from_their_tokens() -> None:
    tokenizer = Tokenizer.load(smollm2().path)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text
        assert b"".join(tokenizer.token_bytes[i] for i in tokenizer.encode(text)) == text.encode()


def test_smollm2_has_its_template_and_its_ends() -> None:
    tokenizer = Tokenizer.load(smollm2().path)
    assert tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert tokenizer.eos_token_ids == {2, tokenizer.backend.token_to_id("<|endoftext|>")}
    prompt = tokenizer.render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids = tokenizer.encode(prompt)
    assert ids.count(1) == 3, "special tokens of the template are single ids"
    assert tokenizer.decode(ids).startswith("system\nYou are")


def test_a_first_token_is_added_where_the_model_has_one(tiny_file: Any) -> None:
    begin = BYTE_TOKENS.index("<|im_start|>")
    given = {"tokenizer.ggml.bos_token_id": begin}
    assert Tokenizer.load(tiny_file(**given)).encode("the") == [BYTE_TOKENS.index("the")]
    expected = [begin, BYTE_TOKENS.index("the")]
    added = Tokenizer.load(tiny_file(**given, **{"tokenizer.ggml.add_bos_token": True}))
    assert added.encode("the") == expected
    assert added.encode("the", add_special_tokens=False) == expected[1:]
    llama = Tokenizer.load(tiny_file(**given, **{"tokenizer.ggml.pre": "llama-bpe"}))
    assert llama.encode("the") == expected, "Llama 3's files leave it out"


def test_templates_are_known_by_their_names(tiny_file: Any) -> None:
    path = tiny_file(**{"tokenizer.chat_template.tool_use": "tools!"})
    templates = Tokenizer.load(path).chat_templates
    assert {name: template.source for name, template in templates.items()}["tool_use"] == "tools!"
    assert set(templates) == {"default", "tool_use"}


def test_recommended_sampling_is_read(tiny_file: Any) -> None:
    given = {"temp": 0.5, "top_k": 20, "penalty_repeat": 500.0}
    path = tiny_file(**{f"general.sampling.{key}": value for key, value in given.items()})
    assert read_sampling_defaults(path) == {"temperature": 0.5, "top_k": 20}
    path.write_bytes(b"none")
    assert read_sampling_defaults(path) == {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokenizer.ggml.model": "t5"}, "tokenizer 't5' is not supported"),
        ({"tokenizer.ggml.model": "llama"}, r"no tokenizer\.ggml\.scores"),
        ({"tokenizer.ggml.pre": "tekken"}, "pre-tokenizer 'tekken' is not supported"),
        ({"tokenizer.ggml.merges": None}, r"no tokenizer\.ggml\.merges"),
        ({"tokenizer.ggml.merges": ["t zz"]}, r"model\.gguf"),
        ({"tokenizer.ggml.token_type": [1, 1]}, "a type for 2 of them"),
    ],
)
def test_a_tokenizer_that_is_not_known_is_refused_by_name(
    tiny_file: Any, changed: dict[str, Any], message: str
) -> None:
    path = tiny_file(**changed)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.load(path)


def test_a_value_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    content = (
        b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + b"\x01" + bytes(7) + b"k\x63\0\0\0" + bytes(9)
    )
    (tmp_path / "odd.gguf").write_bytes(content)
    with pytest.raises(GgufError, match="type 99"):
        GgufFile.read(tmp_path / "odd.gguf")
