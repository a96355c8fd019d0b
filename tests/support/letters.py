"""A tokenizer anybody can follow: a token for each character, and one that ends an answer."""

from __future__ import annotations

END = 0


class Letters:
    """Ids are code points; `END` is written `<end>`."""

    all_special_ids = (END,)

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(token) if token != END else "<end>" for token in ids)
