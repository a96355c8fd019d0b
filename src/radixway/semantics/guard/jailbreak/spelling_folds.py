"""Undoes spellings that a filter does not know: other letters, digits for letters, gaps within words.

Letters of other scripts may look like Latin ones, and some characters nobody sees. All functions return None
where there is nothing of the kind.
"""

import itertools
import re
import string
import unicodedata

from radixway.bundled import read_toml

LOOKALIKES: dict[int, str] = {
    ord(other): latin
    for latin, others in read_toml("attack_patterns/lookalikes.toml").items()
    for other in others
}
"""Code point → Latin letter."""

_SMALL_CAPITALS = dict(zip(map(ord, "ᴀʙᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜʏ"), "abdefghijklmnoprtuy", strict=True))
_ALPHABETS = (0x1F1E6, 0x1F130, 0x1F150, 0x1F170)
"""First letters of regional indicators, and of letters in squares, dark circles and dark squares."""
LOOKALIKES |= _SMALL_CAPITALS | {
    first + at: letter for first in _ALPHABETS for at, letter in enumerate(string.ascii_lowercase)
}

UNSEEN_RANGES = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Character class of invisible signs: zero width, joiners, directions, variation selectors, fillers."""

TAG_FIRST, TAG_LAST = 0xE0020, 0xE007E
"""Tag characters: ASCII that is not shown, at an offset of 0xE0000."""


_UNSEEN = re.compile(f"[{UNSEEN_RANGES}\U000e0000-\U000e007f]+")
_SUSPICIOUS = re.compile(
    # beyond ASCII, and neither Chinese, Japanese nor Korean, nor their punctuation, nor what typesetters use
    r"[^\x00-\x7f\u00a0-\u00ac\u00ae-\u00bf\u00d7\u00f7\u2010-\u2027\u2030-\u203a\u20a0-\u20bf"
    r"\u2190-\u22ff\u2500-\u27bf\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40]"
)
_MARKS = re.compile(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20ff]+")
LEET = r"[a-z][013457@$!|][a-z013457@$!|]|[013457@$!|][a-z][013457@$!|a-z]"
"""Matches texts in which digits may stand for letters; RE2, case-insensitive."""
_LEET_WORD = re.compile(r"(?<![^\s\[({\"'])[A-Za-z0-9@$!|+(]+(?=[\s.,:;?\"')\]]|$)")
_LEET_SIGNS = "0123456789@$!|+("
_LEET_LETTERS = str.maketrans("02345678@$!|+(9", "ozeasgtbasiitcg")
_ONES = 3  # in a word: two readings each

_GAP = r"[ \t\n._\-*|/\\~+·•,]"
_SINGLE_LETTERS = re.compile(rf"(?<![^\W_])[^\W_](?:{_GAP}{{1,3}}[^\W_](?![^\W_])){{3,}}+")
_HAN_GAPS = re.compile(rf"[\u4e00-\u9fff](?:{_GAP}{{1,2}}[\u4e00-\u9fff]){{3,}}+")
_HYPHENS = re.compile(r"\b[A-Za-z]{1,5}(?:[\-._*~·•][A-Za-z]{1,6}){1,5}\b")
_INSIDE = re.compile(r"(?<=[A-Za-z])[\-._*~·•](?=[A-Za-z])")
SPLIT_LETTERS = (
    r"(?:^|[^a-z0-9])[a-z0-9](?:[ \t\n._\-*|/\\~+·•,]{1,3}[a-z0-9]){3}(?:[^a-z0-9]|$)"
    r"|\p{Han}(?:[ \t\n._\-*|/\\~+·•]{1,2}\p{Han}){3}"
)
SPLIT = SPLIT_LETTERS + r"|[a-z][\-._*~·•][a-z]{1,6}"
"""Likewise, of gaps within words."""
_NOT_LETTERS = re.compile(r"[\W_]+")
_MIN_HYPHENS = 2

_WORDS = (
    "all tell rules role will reveal limits limitations little legal illegal full follow following filter "
    "filters kill reply replies policy policies please only allow allowed allows ethical immoral hello world "
    "call restrictions instructions instruction ignore previous prior system prompt disregard guidelines "
    "override list display print developer bypass model language always comply compliance possible clearly"
)
WORDS = frozenset(_WORDS.split())
"""Words that decide between i and l for a 1."""


def fold_confusables(text: str) -> str | None:
    """Drop invisible characters from `text`, and replace letters that look like Latin ones by those."""
    if text.isascii() or not _SUSPICIOUS.search(text):
        return None
    folded = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    folded = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", folded)))
    folded = folded.translate(LOOKALIKES)
    return folded if folded != text else None


def is_mixed(text: str) -> bool:
    """Return whether `text` mixes lookalike or invisible characters with Latin letters."""
    return bool(_MIXED.search(text))


_MIXED = re.compile(
    rf"[A-Za-z][\u0370-\u03ff\u0400-\u04ff\u0500-\u058f{UNSEEN_RANGES}]|[\u0370-\u03ff\u0400-\u058f][A-Za-z]"
    r"|[\uff21-\uff5a\U0001d400-\U0001d7ff\u24b6-\u24e9\U0001f130-\U0001f189\u1d00-\u1d2b]{2}"
)


def undo_leetspeak(text: str) -> str | None:
    """Replace digits for letters in `text`: `1gn0r3` → `ignore`."""
    plain = _LEET_WORD.sub(_plain_word, text)
    return plain if plain != text else None


def join_split_words(text: str) -> str | None:
    """Join `i g n o r e` and `ig-no-re` to `ignore`; where every letter stands alone, words stay together."""
    joined = _SINGLE_LETTERS.sub(lambda run: _letters_to_words(run[0]), text)
    joined = _HAN_GAPS.sub(lambda run: _NOT_LETTERS.sub("", run[0]), joined)
    hyphened = _HYPHENS.findall(joined)
    if len(hyphened) >= _MIN_HYPHENS or any(len(_INSIDE.findall(word)) > 1 for word in hyphened):
        joined = _HYPHENS.sub(lambda word: _INSIDE.sub("", word[0]), joined)
    return joined if joined != text else None


def squash_spaces(text: str) -> str | None:
    """Return the letters and digits of the runs in which letters stand alone: no gap tells words apart."""
    runs = [found[0] for found in itertools.islice(_SINGLE_LETTERS.finditer(text), 64)]
    runs = [run for run in runs if len(run) >= 12]
    if not runs:
        return None
    return "\n".join(_NOT_LETTERS.sub("", run) for run in runs).lower()


def _plain_word(word: re.Match[str]) -> str:
    text = word[0]
    if not any(letter in _LEET_SIGNS for letter in text):
        return text
    if not any(letter.isalpha() for letter in text):
        return _known_number(text)
    end = len(text.rstrip("!"))
    text, tail = text[:end], text[end:]
    plain = text.lower().translate(_LEET_LETTERS)
    ones = [at for at, letter in enumerate(plain) if letter == "1"]
    if not ones or len(ones) > _ONES:
        return plain.replace("1", "i") + tail
    readings = []
    for letters in itertools.product("il", repeat=len(ones)):
        reading = list(plain)
        for at, letter in zip(ones, letters, strict=True):
            reading[at] = letter
        readings.append("".join(reading))
    return next((reading for reading in readings if reading in WORDS), readings[0]) + tail


def _known_number(leet: str) -> str:
    """Replace `411` by `all`; numbers that spell no word of `WORDS` stay as they are."""
    plain = leet.translate(_LEET_LETTERS)
    return next((word for word in (plain.replace("1", "l"), plain.replace("1", "i")) if word in WORDS), leet)


def _letters_to_words(run: str) -> str:
    """Join single letters to words: two signs or more between letters part words, one does not."""
    words = re.split(rf"(?:{_GAP}){{2,3}}", run)
    return " ".join(_NOT_LETTERS.sub("", word) for word in words)
