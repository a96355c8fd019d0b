"""Frames: the same sentence with one word replaced asks for something else, however near the words are."""

from __future__ import annotations

from difflib import SequenceMatcher

from radixway.semantic_cache.verifier.rest import is_spelt_alike
from radixway.semantic_cache.verifier.text import ParsedText


def frames_differ(one: ParsedText, other: ParsedText) -> bool:
    """Whether all content is the same, in the same order, but for one word that is another one there.

    Words of one meaning have one stem by now (`lexicon`); what is left is `violin` and `cello`.
    """
    mine, theirs = one.content, other.content
    if len(mine) != len(theirs) or mine == theirs:
        return False
    changes = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    replaced = [change for change in changes if change[0] != "equal"]
    if len(replaced) != 1 or replaced[0][0] != "replace":
        return False
    _, start, end, there, _ = replaced[0]
    return not all(is_spelt_alike(mine[at], theirs[there + at - start]) for at in range(start, end))
