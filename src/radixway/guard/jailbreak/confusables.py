"""Letters of other scripts that look like Latin ones, and characters that nobody sees.

The pairs are facts of Unicode's confusables (UTS #39); what NFKC folds (full width, mathematical, circled
letters) is not repeated here.
"""

from __future__ import annotations

_LOOKALIKES = {
    "a": "аɑαаⱥ",
    "b": "ЬƅḃɓВβ",
    "c": "сϲᴄ",
    "d": "ԁɗđ",
    "e": "еєɛэЕΕεё",
    "f": "ƒғ",
    "g": "ɡցģ",
    "h": "һհнНΗħ",
    "i": "іıɩιїΙІ",
    "j": "јϳ",
    "k": "κкКΚ",
    "l": "ӏɭłⅼ",
    "m": "мМΜṃ",
    "n": "пոηΝŋ",
    "o": "оοօОΟσøθ",
    "p": "рρРΡ",
    "q": "ԛգ",
    "r": "гᴦɾя",
    "s": "ѕʂꜱЅ",
    "t": "тτТΤŧ",
    "u": "υսцџʋ",
    "v": "ѵνᴠ",
    "w": "ԝωшѡ",
    "x": "хχХΧ",
    "y": "уүγуΥ",
    "z": "ᴢʐΖ",
    "A": "АΑ",
    "B": "В",
    "C": "СϹ",
    "I": "Ӏ",
    "S": "Ѕ",
    "Y": "Ү",
    "J": "Ј",
    "Z": "Ζ",
}
LOOKALIKES = {ord(other): latin for latin, others in _LOOKALIKES.items() for other in others}
"""Code point → Latin letter."""

_SMALL_CAPITALS = dict(zip(map(ord, "ᴀʙᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜʏ"), "abdefghijklmnoprtuy", strict=True))
_REGIONAL = {0x1F1E6 + at: chr(ord("a") + at) for at in range(26)}
_SQUARED = {0x1F130 + at: chr(ord("a") + at) for at in range(26)}
_DARK_CIRCLED = {0x1F150 + at: chr(ord("a") + at) for at in range(26)}
_DARK_SQUARED = {0x1F170 + at: chr(ord("a") + at) for at in range(26)}
LOOKALIKES |= _SMALL_CAPITALS | _REGIONAL | _SQUARED | _DARK_CIRCLED | _DARK_SQUARED

UNSEEN_RANGES = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Of a regular expression's class: zero width, joiners, directions, variation selectors, fillers."""

TAG_FIRST, TAG_LAST = 0xE0020, 0xE007E
"""Tag characters: ASCII that is not shown, at an offset of 0xE0000."""
