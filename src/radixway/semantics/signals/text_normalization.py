"""Text made comparable: width, case and spaces."""

import re
import unicodedata

_HAN_AND_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def normalize_text(text: str) -> str:
    """NFKC (full-width letters become plain ones), runs of spaces as one."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.split())  # a pattern takes ten times as long


def is_unspaced(text: str) -> bool:
    """Return whether it has characters of scripts that write words without spaces between them."""
    return not text.isascii() and _HAN_AND_KANA.search(text) is not None


def is_word_char(char: str) -> bool:
    """Return whether a word goes on with it: letters and digits, but not those of unspaced scripts."""
    return (char.isalnum() or char == "_") and (char.isascii() or _HAN_AND_KANA.match(char) is None)
