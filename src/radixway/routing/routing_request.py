"""A request as the selector sees it: prompt length, block names, session."""

from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec

TokenSource = Literal["ids", "tokenizer", "worker", "text", "size"]
"""How a prompt's length and blocks are known: ids in the request, the model's tokenizer, a worker's
`/tokenize`, the prompt's JSON text, or its size alone, where there was nothing to choose."""


class RoutingRequest(msgspec.Struct, gc=False):
    """A request as the selector sees it. Nothing here is text that a journal would show."""

    tokens: int = 0
    """Prompt tokens; estimated without a tokenizer."""
    blocks: Sequence[int] = ()
    """Names of the prompt's whole blocks, first to last (see `block_hash`)."""
    block_tokens: int = 16
    """Tokens a block; an estimate where blocks are of text."""
    tokenized: bool = False
    """Blocks are of tokens, as the workers' KV events name them, not of text."""
    source: TokenSource | None = None
    """None: the policy reads no prompts."""
    fallback: str | None = None
    """Why there are no tokens although they were looked for, in a word."""
    model: str | None = None
    session: str | None = None
    """Whatever requests of one conversation have in common, for the policy `session`."""
    text: str = ""
    """The prompt's, for policies that read it, until the request is over."""
    stream: bool = False
    packed_blocks: bytes = b""
    """What `blocks` was when the request was over, 8 bytes each: nothing to look at for a collection."""

    def compact(self) -> int:
        """The request is over: drop the text, and pack the blocks. Return about how many bytes stay."""
        self.text = ""
        self.packed_blocks, self.blocks = array("Q", self.blocks).tobytes(), ()
        return len(self.packed_blocks)

    def all_blocks(self) -> Sequence[int]:
        """Return `blocks`, also when the request is over."""
        return array("Q", self.packed_blocks) if self.packed_blocks else self.blocks

    def explain(self) -> dict[str, int | str]:
        """Describe the prompt for the journal."""
        explanation: dict[str, int | str] = {"tokens": self.tokens}
        if self.source is not None:
            explanation["source"] = self.source
        return explanation if self.fallback is None else explanation | {"fallback": self.fallback}
