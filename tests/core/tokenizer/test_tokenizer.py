"""Tokenizers equal `transformers`' on the same directory."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from radixway.core.tokenizer import TemplateError, Tokenizer, TokenizerError, read_sampling_defaults
from support.small_tokenizers import MIXED_TEXT, byte_level_bpe, save

FAMILIES = ["qwen", "llama3", "llama2"]

TEXTS = [
    "",
    " ",
    "hello",
    " hello  world ",
    MIXED_TEXT,
    "前缀缓存 and 😀 together",
    "line\n\n\nline\t\ttab",
    "<|im_start|>user\nhi<|im_end|>\n<tool_call>{}</tool_call>",
    "<s> [INST] hi [/INST] ok </s>",
    "\x00\x01 control \u200b zero-width \ufeff",
]


@pytest.fixture(scope="session")
def pairs(model_dirs: dict[str, Path]) -> dict[str, tuple[Tokenizer, Any]]:
    return {
        name: (Tokenizer.load(path), AutoTokenizer.from_pretrained(path)) for name, path in model_dirs.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("special", [True, False])
def test_encoding_equals_transformers(pairs: Any, family: str, special: bool) -> None:
    ours, theirs = pairs[family]
    for text in TEXTS:
        want = theirs.encode(text, add_special_tokens=special)
        assert ours.encode(text, add_special_tokens=special) == want


@pytest.mark.parametrize("family", FAMILIES)
@given(text=st.text(max_size=60))
def test_encoding_equals_transformers_on_any_text(pairs: Any, family: str, text: str) -> None:
    ours, theirs = pairs[family]
    assert ours.encode(text) == theirs.encode(text)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("skip", [True, False])
def test_decoding_equals_transformers(pairs: Any, family: str, skip: bool) -> None:
    ours, theirs = pairs[family]
    for text in TEXTS:
        ids = theirs.encode(text)
        want = theirs.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        assert ours.decode(ids, skip_special_tokens=skip) == want


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_and_special_ids_equal_transformers(pairs: Any, family: str) -> None:
    ours, theirs = pairs[family]
    assert ours.size == len(theirs)
    assert set(theirs.all_special_ids) <= ours.special_ids
    assert ours.token_id("eos_token") == theirs.eos_token_id
    assert ours.token_id("bos_token") == theirs.bos_token_id


def test_eos_ids_come_from_tokenizer_and_generation_config(pairs: Any) -> None:
    ours, theirs = pairs["qwen"]
    assert ours.eos_token_ids == {1, theirs.eos_token_id, theirs.convert_tokens_to_ids("<|endoftext|>")}


def test_recommended_sampling_is_what_an_engine_would_take(tmp_path: Path) -> None:
    path = tmp_path / "generation_config.json"
    assert read_sampling_defaults(tmp_path) == {}
    given = {"temperature": 0.6, "top_k": 20, "top_p": 1.5, "min_p": True, "repetition_penalty": "1"}
    path.write_text(json.dumps(given | {"max_new_tokens": 5}))
    assert read_sampling_defaults(tmp_path) == {"temperature": 0.6, "top_k": 20, "max_new_tokens": 5}
    path.write_text(json.dumps({"top_k": 2.5, "max_new_tokens": 0}))
    assert read_sampling_defaults(tmp_path) == {}
    for broken in ("[]", "no JSON"):
        path.write_text(broken)
        assert read_sampling_defaults(tmp_path) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bytes_of_tokens_join_to_the_text(pairs: Any, family: str) -> None:
    ours, _ = pairs[family]
    ids = ours.encode(MIXED_TEXT, add_special_tokens=False)
    data = b"".join(ours.token_bytes[token] for token in ids)
    assert data.decode() == (" " if family == "llama2" else "") + MIXED_TEXT


@pytest.mark.parametrize("family", FAMILIES)
def test_no_token_stands_for_more_characters_than_the_longest(pairs: Any, family: str) -> None:
    tokenizer, _ = pairs[family]
    lengths = [len(tokenizer.decode([i], skip_special_tokens=False)) for i in range(tokenizer.size)]
    assert 0 < max(lengths) <= tokenizer.longest_token


def test_an_id_outside_the_vocabulary_stands_for_nothing(pairs: Any) -> None:
    ours, _ = pairs["qwen"]
    assert ours.piece(10**6) == "" and ours.piece(-1) == "" and ours.piece(2**40) == ""
    with pytest.raises(ValueError, match="token ids"):
        ours.decode([2**40])


def test_half_a_character_shows_as_the_replacement_sign(pairs: Any) -> None:
    ours, _ = pairs["qwen"]
    first_byte = ours.backend.token_to_id("ð")  # 0xF0 in the byte-level alphabet
    assert ours.piece(first_byte) == "�" and ours.token_bytes[first_byte] == b"\xf0"


def test_text_with_lone_surrogates_is_refused(pairs: Any) -> None:
    with pytest.raises(ValueError, match="Unicode"):
        pairs["qwen"][0].encode("\ud800")


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    save(tmp_path, byte_level_bpe([]), {})
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)


def test_a_directory_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("where", ["config", "jinja", "json", "named"])
def test_the_chat_template_is_found_where_models_keep_it(tmp_path: Path, where: str) -> None:
    source = "{{ messages[0].content }}!"
    config: dict[str, Any] = {"config": {"chat_template": source}}.get(where, {})
    if where == "named":
        config = {
            "chat_template": [{"name": "default", "template": source}, {"name": "tool_use", "template": "T"}]
        }
    save(tmp_path, byte_level_bpe([]), config)
    if where == "jinja":
        (tmp_path / "chat_template.jinja").write_text(source, encoding="utf-8")
    if where == "json":
        (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": source}), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.render([{"role": "user", "content": "hi"}]) == "hi!"
    if where == "named":
        assert tokenizer.render([{"role": "user", "content": "hi"}], tools=[{"type": "function"}]) == "T"


def test_a_model_without_a_template_says_so(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(save(tmp_path, byte_level_bpe([]), {}))
    with pytest.raises(TemplateError, match="no chat template"):
        tokenizer.render([{"role": "user", "content": "hi"}])


class CountedBackend:
    """A backend that notes how often its whole vocabulary is copied."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.copies = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def get_vocab(self, **more: Any) -> dict[str, int]:
        self.copies += 1
        vocabulary: dict[str, int] = self.backend.get_vocab(**more)
        return vocabulary


def test_the_vocabulary_is_read_once_however_often_its_size_is_asked() -> None:
    backend = CountedBackend(byte_level_bpe(["<|end|>"]))
    backend.add_tokens(["an added one" * 9])
    tokenizer = Tokenizer(backend)  # type: ignore[arg-type]
    assert {tokenizer.size for _ in range(1000)} == {backend.get_vocab_size()}
    assert tokenizer.longest_token == len("an added one" * 9)
    assert tokenizer.decode([tokenizer.size - 1]) == "an added one" * 9
    assert backend.copies == 1
