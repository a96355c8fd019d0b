"""Texts that tokenizers disagree about, and spellings of them that no tokenizer would choose."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import radixway.bundled
from radixway.core.tokenizer import Tokenizer

GUIDE = Path(radixway.bundled.__file__).parent / "guide"

_PARTS = [
    *("intern", "ational", "inter", "in", "a", "the", " token", " tree", " international", "ization", " x"),
    *("\n", "\n\n", "\n\n\n", "\t", " ", "  ", "\r\n", "\u200b", "\u3000", "\u00a0", "\n- ", " cache"),
    *(
        "def",
        "return(",
        "12",
        "345",
        "0",
        "6",
        "'",
        '"',
        "```",
        "{}",
        "<|",
        "e",
        "é",
        "e\u0301",
        "ü",
        "ß",
        "Ω",
    ),
    *("基数树", "什么是", "。", "日本語", "🙂", "👩\u200d👩\u200d👧", "🇩🇪", "\ufffd"),
]
END, START = "<|im_end|>", "<|im_start|>"


def odd_text(rng: random.Random, most: int = 12) -> str:
    """Never empty."""
    return "".join(rng.choice(_PARTS) for _ in range(rng.randint(1, most))) or " "


@cache
def guide() -> Tokenizer:
    """The bundled model's own byte-level BPE."""
    return Tokenizer.load(GUIDE)


@cache
def _by_first_byte(tokenizer: Tokenizer) -> dict[int, list[tuple[bytes, int]]]:
    found: dict[int, list[tuple[bytes, int]]] = {}
    for token in range(tokenizer.size):
        piece = tokenizer.token_bytes[token]
        if piece and token not in tokenizer.special_ids:
            found.setdefault(piece[0], []).append((piece, token))
    return found


def spell(rng: random.Random, tokenizer: Tokenizer, text: str) -> list[int]:
    """Tokens of `text` as a sampler may happen to choose them."""
    raw, ids = text.encode(), []
    pieces = _by_first_byte(tokenizer)
    while raw:
        piece, token = rng.choice([pair for pair in pieces[raw[0]] if raw.startswith(pair[0])])
        ids.append(token)
        raw = raw[len(piece) :]
    return ids


def any_tokens(rng: random.Random, tokenizer: Tokenizer, count: int) -> Sequence[int]:
    """Tokens without a rule: bytes that are no characters, special ones, and what has no text."""
    return [rng.randrange(tokenizer.size) for _ in range(count)]
