"""Reads the book: plain text pages with one answer in two languages and many ways to ask for it.

    == alias; alias || 别名; 别名        a concept; its questions come from the templates
    what> English answer || 中文回答      (also why>, how>)
    q> one wording | another wording      more wordings of the answer above, in English
    问> 一种问法 | 另一种问法              the same in Chinese
    fact> key                             a single answer that is asked only in its own wordings
    do> act; act || 做法; 做法            a task; "How do I {act}?" comes from the templates
    vs> a; a2 ~ b; b2 || 甲 ~ 乙          a comparison
    a> English answer || 中文回答         the answer of fact>, do> and vs>

`newcomer.txt` has what newcomers ask first, `wordings.txt` more wordings, both by the page's key. Of every
list of four wordings or more on the pages, and of eight or more in `wordings.txt`, the last is held out:
asked in the evaluation, never trained on.
"""

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LANGUAGES = ("en", "zh")
PAGES = ("serving.txt", "product.txt", "smalltalk.txt")


@dataclass(slots=True)
class Page:
    """One answer of the book and what asks for it."""

    key: str
    kind: str  # what | why | how | do | vs | fact
    names: dict[str, list[str]] = field(default_factory=lambda: {"en": [], "zh": []})
    others: dict[str, list[str]] = field(default_factory=lambda: {"en": [], "zh": []})  # the b of a ~ b
    answer: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, list[str]] = field(default_factory=lambda: {"en": [], "zh": []})
    held_out: dict[str, list[str]] = field(default_factory=lambda: {"en": [], "zh": []})
    small_talk: bool = False
    newcomer: dict[str, list[str]] = field(default_factory=dict)
    """How newcomers ask for it, word for word, by language; empty for most pages."""


def _both(text: str) -> tuple[str, str]:
    english, _, chinese = text.partition("||")
    if not chinese.strip():
        raise ValueError(f"no Chinese half in {text!r}")
    return english.strip(), chinese.strip()


def _by_language(wordings: list[str]) -> dict[str, list[str]]:
    chinese = [wording for wording in wordings if is_chinese(wording)]
    return {"en": [wording for wording in wordings if wording not in chinese], "zh": chinese}


def _list(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def is_chinese(text: str) -> bool:
    """Whether an answer to `text` should be Chinese: English terms are mixed in, seldom the reverse."""
    return any("一" <= letter <= "鿿" for letter in text)


def newcomer_questions() -> dict[str, dict[str, list[str]]]:
    """The questions of `newcomer.txt` by the page's key and by language."""
    questions = {}
    for line in (HERE / "newcomer.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, wordings = line.partition("::")
            questions[key.strip()] = _by_language(_list(wordings, "|"))
    return questions


def read_pages() -> list[Page]:
    """All pages of the book, in order; raises ValueError on a line it cannot place."""
    pages: list[Page] = []
    for name in PAGES:
        pages += _read(HERE / name, small_talk=name == "smalltalk.txt")
    by_key = {page.key: page for page in pages}
    for line in (HERE / "wordings.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, wordings = line.partition("::")
            page = by_key[key.strip()]
            for language, told in _by_language(_list(wordings, "|")).items():
                if len(told) >= 8:
                    page.held_out[language].append(told.pop())
                page.wordings[language] += told
    held_out = {wording for page in pages for wordings in page.held_out.values() for wording in wordings}
    for page in pages:
        for language in LANGUAGES:
            page.wordings[language] = [text for text in page.wordings[language] if text not in held_out]
    for page in pages:
        page.newcomer = newcomer_questions().get(page.key, {})
    keys = [page.key for page in pages]
    doubled = {key for key in keys if keys.count(key) > 1}
    if doubled:
        raise ValueError(f"two pages share a key: {sorted(doubled)}")
    return pages


def _read(path: Path, small_talk: bool) -> list[Page]:
    pages: list[Page] = []
    names: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("=="):
            english, chinese = _both(line[2:])
            names = {"en": _list(english, ";"), "zh": _list(chinese, ";")}
            continue
        mark, found, rest = line.partition(">")
        if not found:
            raise ValueError(f"{path.name}:{number}: no mark in {line!r}")
        if mark in ("what", "why", "how"):
            pages.append(Page(f"{names['en'][0]}/{mark}", mark, names=names))
            pages[-1].answer["en"], pages[-1].answer["zh"] = _both(rest)
        elif mark == "fact":
            pages.append(Page(rest.strip(), "fact"))
        elif mark == "do":
            english, chinese = _both(rest)
            pages.append(
                Page(_list(english, ";")[0], "do", {"en": _list(english, ";"), "zh": _list(chinese, ";")})
            )
        elif mark == "vs":
            english, chinese = _both(rest)
            sides = [[_list(side, ";") for side in text.split("~")] for text in (english, chinese)]
            page = Page(f"{sides[0][0][0]} ~ {sides[0][1][0]}", "vs")
            page.names = {"en": sides[0][0], "zh": sides[1][0]}
            page.others = {"en": sides[0][1], "zh": sides[1][1]}
            pages.append(page)
        elif mark == "a":
            pages[-1].answer["en"], pages[-1].answer["zh"] = _both(rest)
        elif mark in ("q", "问"):
            language = "en" if mark == "q" else "zh"
            wordings = _list(rest, "|")
            if len(wordings) >= 4:
                pages[-1].held_out[language].append(wordings.pop())
            pages[-1].wordings[language] += wordings
        else:
            raise ValueError(f"{path.name}:{number}: unknown mark {mark!r}")
        pages[-1].small_talk = small_talk
    return pages
