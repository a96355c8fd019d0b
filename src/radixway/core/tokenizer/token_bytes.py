"""Which bytes a token stands for: what streaming, log-probabilities and constraints need.

Byte-level BPE writes every byte as a printable character, SentencePiece-style BPE writes spaces as `▁` and
rare bytes as `<0x0A>`; both are undone exactly. Other decoders are asked what a token adds after another.
"""

import json
import re

import tokenizers

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenBytes(dict[int, bytes]):
    """Token id → the bytes it adds to a text already begun, filled in as ids are met.

    A token keeps its leading space, as it does when decoded after others. An id outside the vocabulary stands
    for nothing.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        super().__init__()
        self._backend = backend
        kinds = _decoder_kinds(backend)
        self._byte_level = kinds == ["ByteLevel"]
        self._spaced = "ByteFallback" in kinds or kinds == ["Metaspace"]
        self._byte_fallback = "ByteFallback" in kinds
        self.strips_first_space = kinds == ["Metaspace"] or "Strip" in kinds
        """Does a whole text lose the space that its first token carries?"""

    def __missing__(self, token_id: int) -> bytes:
        piece = self[token_id] = self._bytes_of(token_id)
        return piece

    def _bytes_of(self, token_id: int) -> bytes:
        try:
            piece = self._backend.id_to_token(token_id)
        except OverflowError:  # not an unsigned 32-bit number
            return b""
        if piece is None:
            return b""
        if self._byte_level:
            try:
                return bytes(_BYTE_OF_CHARACTER[character] for character in piece)
            except KeyError:  # an added token is written as it is
                return piece.encode()
        if self._byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes([int(byte[1], 16)])
        if self._spaced:
            return piece.replace("▁", " ").encode()
        before = self._backend.decode([token_id], skip_special_tokens=False)
        both = self._backend.decode([token_id, token_id], skip_special_tokens=False)
        return both.removeprefix(before).encode()


def _decoder_kinds(backend: tokenizers.Tokenizer) -> list[str]:
    """Names of the decoder's steps, e.g. ["Replace", "ByteFallback", "Fuse", "Strip"]."""
    if backend.decoder is None:
        return []
    # A decoder has no public description of its own; an empty tokenizer around it does.
    shell = tokenizers.Tokenizer(tokenizers.models.BPE())
    shell.decoder = backend.decoder
    state = json.loads(shell.to_str())["decoder"]
    return [step["type"] for step in state.get("decoders", [state])]


def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()
