"""Views of a text as a model may read it: each undoes one way of disguising it.

Deterministic; every step takes time linear in the text, and what may be decoded is bounded. A step that the
text gives no reason for costs one look.
"""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import re2

from radixway.semantics.guard.jailbreak import encodings, spelling_folds

DEPTH = 2
"""Rounds of decoding: base64 of base64."""
MAX_DECODED_CHARS = 65_536
"""Characters of decoded parts that are kept, over all views."""
MAX_VIEWS = 16
SHORT = 4096
"""Characters up to which respelled words are searched for other disguises: `1.g.n.0.r.3`."""
_SPELLINGS = frozenset({"leetspeak", "spacing"})


@dataclass(slots=True, frozen=True)
class NormalizedView:
    """A text with some disguises undone."""

    how: str
    """`plain`, or what was undone, the outermost first: `base64`, `url+base64` …"""
    text: str
    is_squashed: bool = False
    """Whether nothing stands between its words."""


def normalized_views(text: str) -> list[NormalizedView]:
    """Return `text` itself first, then every view that differs from those before it."""
    found = [NormalizedView("plain", text)]
    seen = {(text, False)}
    chars_left = MAX_DECODED_CHARS
    begin = 0
    for _ in range(DEPTH):
        level, begin = found[begin:], len(found)
        for above in level:
            if above.is_squashed or (above.how in _SPELLINGS and len(above.text) > SHORT):
                continue
            for view in _undo_disguises(above.text):
                if (view.text, view.is_squashed) in seen or len(found) >= MAX_VIEWS:
                    continue
                if view.how in encodings.NAMES:
                    if chars_left <= 0:
                        continue
                    view = NormalizedView(view.how, view.text[:chars_left])
                    chars_left -= len(view.text)
                seen.add((view.text, view.is_squashed))
                how = view.how if above.how == "plain" else f"{above.how}+{view.how}"
                found.append(NormalizedView(how, view.text, view.is_squashed))
    return found


@dataclass(slots=True, frozen=True)
class _Step:
    how: str
    undo: Callable[[str], str | None]
    reason: str
    """RE2, without regard to case: what must stand in a text before `undo` is tried."""


_STEPS = (
    _Step("folded", spelling_folds.fold_confusables, r"[^\x00-\x7f]"),
    _Step("tags", encodings.read_tags, r"[\x{e0020}-\x{e007e}]"),
    _Step("url", encodings.read_percent, r"%[0-9a-f]{2}"),
    _Step("entities", encodings.read_entities, r"&#"),
    _Step("escapes", encodings.read_escapes, r"\\[ux][0-9a-f{]"),
    _Step("base64", encodings.read_base64, r"[a-z0-9+/_-]{16}"),
    _Step("hex", encodings.read_hex, r"(?:[0-9a-f]{2}[ ,:\n]{0,2}(?:0x|\\x)?){8}"),
    _Step("binary", encodings.read_binary, r"[01]{8}[ ,\n]?[01]{8}"),
    _Step("morse", encodings.read_morse, r"(?:[.\-·–−]{1,6} +/? *){4}"),
    _Step("rot13", lambda text: codecs.encode(text, "rot13"), encodings.IN_ROT13),
    _Step("atbash", lambda text: text.translate(encodings.ATBASH), encodings.IN_ATBASH),
    _Step("reversed", lambda text: text[::-1], encodings.BACKWARDS),
    _Step(
        "words reversed",
        lambda text: encodings.WORD.sub(lambda word: word[0][::-1], text),
        encodings.BACKWARDS,
    ),
    _Step("word order", lambda text: " ".join(reversed(text.split())), encodings.WORD_ORDER),
    _Step("pig latin", encodings.read_pig_latin, encodings.IN_PIG_LATIN),
    _Step("leetspeak", spelling_folds.undo_leetspeak, spelling_folds.LEET),
    _Step("spacing", spelling_folds.join_split_words, spelling_folds.SPLIT),
    _Step("squashed", spelling_folds.squash_spaces, spelling_folds.SPLIT_LETTERS),
)


@cache
def _reasons() -> re2.Set:
    options = re2.Options()
    options.case_sensitive = False
    found = re2.Set.SearchSet(options)
    for step in _STEPS:
        found.Add(step.reason)
    found.Compile()
    return found


def _undo_disguises(text: str) -> Iterator[NormalizedView]:
    for index in sorted(_reasons().Match(text) or ()):
        step = _STEPS[index]
        undone = step.undo(text)
        if undone:
            yield NormalizedView(step.how, undone, is_squashed=step.how == "squashed")
