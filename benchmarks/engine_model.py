"""A model that every engine can load: random float32 weights, and a tokenizer in which a token is a word.

Each token from `FIRST` on is a space and four letters, so a text says exactly which tokens it is made of: a
server that takes and gives only text is sent the tokens that are meant, and those of its answer can be read.
The tokenizer is of Llama 3's kind: byte-level BPE, words that are in the vocabulary are not taken apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from shapes import SHAPES, llama_config

FIRST = 5  # tokens below are special: they stand in no prompt and no answer
WORD = 5  # characters of every other token
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SPLIT = (  # Llama 3's
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def text_of(tokens: Iterable[int]) -> str:
    """The text that is tokenized into `tokens`, all of them at least `FIRST`."""
    return "".join(map(_word, tokens))


def tokens_of(text: str) -> list[int]:
    """The tokens of a text; raises ValueError where it is not made of this vocabulary's words."""
    words = [text[at : at + WORD] for at in range(0, len(text), WORD)]
    tokens = [_number(word[1:]) for word in words]
    if text_of(tokens) != text:
        raise ValueError(f"{text[:40]!r} is not made of the model's words")
    return tokens


def write_model(shape: str, directory: Path) -> Path:
    """Write config.json, model.safetensors and tokenizer.json of a Llama of `shape`; gives the directory."""
    config = llama_config(shape) | {"bos_token_id": 1, "eos_token_id": 0, "dtype": "float32"}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(_random_weights(shape), directory / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(SHAPES[shape][-1]).save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<1>", "eos_token": "<0>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


def _random_weights(shape: str) -> dict[str, torch.Tensor]:
    """Norms are ones, all else is normal, and the rows of special tokens are zero.

    Projections have twice the deviation of the embedding, so that what a token attends to decides the answer:
    an engine that got positions or heads wrong would be found out. A special token's logit is 0, never the
    greatest of thousands: no greedy answer ends before its length, whatever a server can be told about that.
    """
    hidden, intermediate, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    draw = torch.Generator().manual_seed(0)
    kv = hidden // heads * kv_heads
    sizes = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (intermediate, hidden),
        "mlp.up_proj": (intermediate, hidden),
        "mlp.down_proj": (hidden, intermediate),
    }

    def normal(deviation: float, *size: int) -> torch.Tensor:
        return torch.randn(size, generator=draw) * deviation

    embedding = normal(0.02, vocabulary, hidden)
    embedding[:FIRST] = 0
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": torch.ones(hidden)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        weights |= {f"{at}.{name}.weight": normal(0.04, *size) for name, size in sizes.items()}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}.{norm}.weight"] = torch.ones(hidden)
    return weights


def _tokenizer(vocabulary: int) -> Tokenizer:
    special = [f"<{token}>" for token in range(FIRST)]
    words = [_word(token).replace(" ", "Ġ") for token in range(FIRST, vocabulary)]
    ids = {word: token for token, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.BPE(ids, [], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in special])
    return tokenizer


@cache
def _word(token: int) -> str:
    letters = ""
    for _ in range(WORD - 1):
        token, letter = divmod(token, len(_LETTERS))
        letters = _LETTERS[letter] + letters
    return " " + letters


def _number(letters: str) -> int:
    token = 0
    for letter in letters:
        token = token * len(_LETTERS) + _LETTERS.find(letter)
    return token
