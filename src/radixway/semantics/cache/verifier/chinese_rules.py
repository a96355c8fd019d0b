"""Chinese: no spaces, so the rules look for words in the text, and content is what remains without filler."""

import re
import unicodedata

from radixway.bundled import read_toml

_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿぀-ヿ가-힯]")
_LETTER = re.compile(r"[^\W\d_]")

_DATA = read_toml("semantic_cache/chinese.toml")
_SAME = tuple(tuple(pair.split("/")) for pair in _DATA["synonyms"].split())
_FILLER = re.compile("|".join(_DATA["filler"].split()) + r"""|[\s,，。.?？!！、:：;；"'“”‘’()（）《》【】]""")
_WHAT_IS = re.compile(r"(?:等于|是)多少(?=\W|$)")
"""Matches questions for a value, as `what is`."""
_COMPATIBLE = {frozenset(pair) for pair in (("what", "where"), ("what", "who"), ("what", "when"), ("what", "why"),
                                            ("what", "count"), ("how", "what"), ("what", "none"), ("how", "none"),
                                            ("count", "none"), ("where", "none"), ("who", "none"), ("when", "none"))}  # fmt: skip
_NEGATION = re.compile(
    "不(?!同|错|管|仅|但|过|断|久|少)|没有|没|无(?!论|线|人机)|未(?!来)|别(?=[^的墅名人])|非(?=[^常洲])|勿|禁止|避免|除了"
)
_WHETHER_NOT = re.compile("可不可以|有没有|不小心|(.)[不没]\\1")
"""Matches yes-no questions and words that only look like negations."""
_OPPOSITES = tuple(pair.split("/") for pair in _DATA["opposites"].split())
_NUMERALS = {c: v for v, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?|[零一二三四五六七八九两十百千万亿〇]+")
_NOT_NUMBERS = re.compile(
    "一下|一般|一样|一起|一些|一点|一直|一定|一个|万一|统一|唯一|第一次|千万|三明治|四川|八卦|九寨|百度|万能|一种|哪一|一步一步|一步步|逐一|一模一样|一一|一共|二手|零基础|一[封首篇位条次张段份名句只台]"
)
_DIRECTION = re.compile(
    "从(.+?)(?:到|去|至|飞|往|开往|转|换|翻译成|变成|转换成|转成)(.+?)(?:[的要怎多有需?？,，。]|$)|(.+?)(?:比|打败|转成|转换成|转换为|换成|换算成|翻译成|兑换?)(.+?)(?:[的要怎多有需高大好快?？,，。]|$)"
)
_UNITS = tuple(_DATA["units"].split())


def is_chinese(text: str) -> bool:
    """Return whether at least a third of the letters are Han, kana or Hangul."""
    letters = len(_LETTER.findall(text))
    return letters > 0 and 3 * len(_HAN.findall(text)) >= letters


def unify_synonyms(text: str) -> str:
    """Return the text with words of one meaning written alike."""
    text = unicodedata.normalize("NFKC", text).lower()
    for word, name in _SAME:
        text = text.replace(word, name)
    return text


def strip_filler(text: str) -> str:
    """Return what remains without filler; the text itself where nothing does."""
    text = unify_synonyms(text)
    return _FILLER.sub("", text) or text


def extract_numbers(text: str) -> list[float]:
    """Return the numbers, in digits or in Chinese, in order."""
    return [_numeral_value(found) for found in _NUMBER.findall(_NOT_NUMBERS.sub(" ", text))]


def _numeral_value(numeral: str) -> float:
    if numeral[0].isdigit():
        return float(numeral)
    total = section = digit = 0
    for c in numeral:
        if c in _NUMERALS:
            digit = digit * 10 + _NUMERALS[c] if digit else _NUMERALS[c]
        elif c in "十百千":
            section += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[c]
            digit = 0
        else:
            total = (total + section + digit or 1) * {"万": 10**4, "亿": 10**8}[c]
            section = digit = 0
    return float(total + section + digit)


def difference_reason(one: str, other: str) -> str | None:
    """Why two Chinese texts ask for different things, as far as single rules can tell."""
    mine, theirs = unify_synonyms(one), unify_synonyms(other)
    if sorted(extract_numbers(mine)) != sorted(extract_numbers(theirs)) or _units(mine) != _units(theirs):
        return "numbers"
    if _negations(mine) != _negations(theirs):
        return "negation"
    if _opposed(mine, theirs):
        return "opposites"
    if _is_reversed(mine, theirs):
        return "direction"
    if sorted(re.findall(r"[a-z][a-z0-9+#._-]*", mine)) != sorted(re.findall(r"[a-z][a-z0-9+#._-]*", theirs)):
        return "names"
    return None


def _units(text: str) -> set[str]:
    after_numbers = re.findall(r"[\d零一二三四五六七八九十百千万两]\s*(\D{1,3})", _NOT_NUMBERS.sub(" ", text))
    return {unit for unit in _UNITS if any(found.startswith(unit) for found in after_numbers)}


def _negations(text: str) -> int:
    return len(_NEGATION.findall(_WHETHER_NOT.sub("", text))) % 2


def _opposed(one: str, other: str) -> bool:
    for left, right in _OPPOSITES:
        if left in one and right in other and left not in other and right not in one:
            return True
        if right in one and left in other and right not in other and left not in one:
            return True
    return False


def _is_reversed(one: str, other: str) -> bool:
    mine, theirs = _route_ends(one), _route_ends(other)
    if mine is not None and theirs is not None and mine == theirs[::-1]:
        return True
    return sorted(one) == sorted(other) and _differ_by_a_swap(strip_filler(one), strip_filler(other))


def _route_ends(text: str) -> tuple[str, str] | None:
    found = _DIRECTION.search(text)
    if found is None:
        return None
    start, end = (found[1], found[2]) if found[1] else (found[3], found[4])
    return _FILLER.sub("", start), _FILLER.sub("", end)


def _differ_by_a_swap(one: str, other: str) -> bool:
    """Return whether content characters are permuted but not rotated, as in `狗咬人` and `人咬狗`."""
    return one != other and not any(one[at:] + one[:at] == other for at in range(len(one)))


def are_kinds_apart(kind: str, other: str) -> bool:
    """Return whether one thing that is asked for is plainly not the other."""
    return kind != other and frozenset((kind, other)) not in _COMPATIBLE


def question_kind(text: str) -> str:
    """Return what is asked for, by the words that ask; `none` where there are none."""
    text = _WHAT_IS.sub("什么", text)
    return next((kind for kind, words in _DATA["question_kinds"].items() if re.search(words, text)), "none")
