"""Where a text may be cut so that the tokens of its pieces, one after the other, are the tokens of the whole.

The `tokenizers` library finds special tokens in a text before anything else and encodes what lies between
them each by itself. So a text may be cut in front of any special token that is sure to be found there::

    <|im_start|>system\\nBe brief.|<|im_end|>\\n|<|im_start|>user\\nHello|<|im_end|>\\n
                                 ^            ^                      ^

Not sure is one that reaches over spaces before it, that must be a word of its own, that is looked for in
normalized text, or of which a part may belong to another token that begins earlier.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import tokenizers
from tokenizers import AddedToken

_BELONGS_BEFORE = re.compile(r"[\s\w]")
"""Beginnings that a token in front may reach for, or look at to see whether it is a word of its own."""


class SpecialTokenSplitter:
    """Cuts texts for one tokenizer."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        added = [token for token in backend.get_added_tokens_decoder().values() if token.content]
        raw = [token for token in added if not token.normalized]
        sure = [] if backend.encode_special_tokens else list(_splittable_tokens(raw))
        self._cut = re.compile("|".join(map(re.escape, sure))) if sure else None

    def split_text(self, text: str) -> list[str]:
        """`text` in pieces, each but the first beginning with a special token."""
        starts = [start for start, _ in self.find_special_tokens(text)]
        if not starts:
            return [text]
        bounds = [*starts, len(text)] if starts[0] == 0 else [0, *starts, len(text)]
        return [text[start:end] for start, end in pairwise(bounds)]

    def find_special_tokens(self, text: str) -> list[tuple[int, str]]:
        """Where `text` may be cut, each place with the special token behind it."""
        return [] if self._cut is None else [(m.start(), m[0]) for m in self._cut.finditer(text)]


def _splittable_tokens(raw: list[AddedToken]) -> Iterator[str]:
    """The tokens in front of which to cut, of all that are looked for in raw text."""
    tails = "\0".join(token.content[1:] for token in raw)
    overhangs = {token.content[at:] for token in raw for at in range(1, len(token.content))}
    fussy = [token.content for token in raw if token.lstrip or token.single_word]
    for token in raw:
        text = token.content
        if not token.special or _BELONGS_BEFORE.match(text):
            continue
        inside_another = text in tails or any(text[:end] in overhangs for end in range(1, len(text)))
        if not inside_another and not any(other.startswith(text) for other in fussy):
            yield text
