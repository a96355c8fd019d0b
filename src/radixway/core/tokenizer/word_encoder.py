"""Encodes short texts from the tokens of their words, which are kept.

Byte-level tokenizers first find words in a text, and no word of the families below reaches from an ASCII
letter over one space to the next letter. So a text may be cut there: what lies between two cuts has the same
tokens whatever is around it::

    Who| wrote| "The Master| and| Margarita", and| when?

The library takes four times as long, ten times once its tables have left the processor's cache.
"""

import json
import re
from itertools import chain
from typing import Any, Self

import tokenizers

from radixway.core.tokenizer.piecewise import SpecialTokenSplitter
from radixway.core.tokenizer.tokenizer import Tokenizer

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = frozenset(
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{_REST}"
    for digits in (r"\p{N}", r"\p{N}{1,3}")
)
"""How Qwen (digits one by one), Llama 3 and GPT-4 find words. GPT-2's pattern has no spelling of its own."""
_split_words = re.compile(r"(?= [A-Za-z])(?<=[A-Za-z])").split

_MAX_WORDS = 8192
"""Words kept: some 2 MB."""
_MAX_WORD_CHARACTERS = 64
"""Longer ones are rarely met again, and are not kept."""
_MAX_NEW_WORDS = 4
"""New words encoded one by one; a text with more of them is encoded as a whole."""


class WordEncoder:
    """Encodes for one tokenizer; safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer, max_words: int = _MAX_WORDS) -> None:
        """`tokenizer`: one for which `for_tokenizer` makes an encoder. `max_words`: words kept."""
        self._tokenizer = tokenizer
        self._cuts = SpecialTokenSplitter(tokenizer.backend)
        self._max_words = max_words
        self._known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer) -> Self | None:
        """Return an encoder, or None for a `tokenizer` whose words may depend on each other."""
        return cls(tokenizer) if _has_independent_words(tokenizer.backend) else None

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, with none around them. Raises ValueError for invalid Unicode."""
        words = [word for piece in self._cuts.split_text(text) for word in _split_words(piece)]
        try:
            return list(chain.from_iterable([self._known[word] for word in words]))
        except KeyError:
            return self._encode_new(text, words)

    def _encode_new(self, text: str, words: list[str]) -> list[int]:
        """Encode a text of which some words are new. Few of them are learnt at a time: each is a call."""
        found = {word: self._known.get(word) for word in words}
        new = [word for word, ids in found.items() if ids is None]
        for word in new[:_MAX_NEW_WORDS]:
            found[word] = ids = tuple(self._tokenizer.encode(word, add_special_tokens=False))
            if len(word) <= _MAX_WORD_CHARACTERS:
                if len(self._known) >= self._max_words:
                    self._known.clear()
                self._known[word] = ids
        if len(new) > _MAX_NEW_WORDS:
            return self._tokenizer.encode(text, add_special_tokens=False)
        return [token for word in words for token in found[word] or ()]


def _has_independent_words(backend: tokenizers.Tokenizer) -> bool:
    """Return whether the tokens on one side of a cut never depend on the other side."""
    model = backend.model
    if not isinstance(model, tokenizers.models.BPE) or model.dropout:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    for token in backend.get_added_tokens_decoder().values():
        reaches_out = token.lstrip or token.rstrip or token.single_word
        if reaches_out or any(map(str.isspace, token.content)):
            return False
    # These two have no public description of their own; a tokenizer of nothing else does.
    shell = tokenizers.Tokenizer(tokenizers.models.BPE())
    if backend.normalizer is not None:
        shell.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        shell.pre_tokenizer = backend.pre_tokenizer
    state = json.loads(shell.to_str())
    return state["normalizer"] in (None, {"type": "NFC"}) and _splits_words(state["pre_tokenizer"])


def _splits_words(state: dict[str, Any] | None) -> bool:
    """Return whether a pre-tokenizer, as tokenizer.json has it, is that of a known family."""
    if state is None:
        return False
    *steps, last = state.get("pretokenizers", [state])
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    if not steps:
        return bool(last["use_regex"])
    split = steps[0]
    return (
        len(steps) == 1
        and not last["use_regex"]
        and split["type"] == "Split"
        and split["pattern"].get("Regex") in _PATTERNS
        and split["behavior"] == "Isolated"
        and not split["invert"]
    )
