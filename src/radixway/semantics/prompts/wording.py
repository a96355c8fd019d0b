"""Judgements on the wording of a prompt's parts: labels, tags and sentences. The words are in
bundled/prompt_wording.toml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from radixway.bundled import read_toml

LabelKind = Literal["ask", "data", "answer", "style"]

_WORDING: dict[str, Any] = read_toml("prompt_wording.toml")


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(","))


def _pattern(alternatives: Sequence[str], **named: str) -> re.Pattern[str]:
    joined = "|".join(alternatives)
    for name, value in named.items():
        joined = joined.replace(name.upper(), value)
    return re.compile(joined, re.IGNORECASE)


_STRENGTHS = {"question": 3, "task": 2, "input": 1}
_KINDS: dict[str, LabelKind] = {"data": "data", "answer": "answer", "style": "style"}
_STRENGTH_OF: dict[str, int] = {}
_KIND_OF: dict[str, LabelKind] = {}
for _name, _text in _WORDING["labels"].items():
    _KIND_OF.update(dict.fromkeys(_words(_text), _KINDS.get(_name, "ask")))
    _STRENGTH_OF.update(dict.fromkeys(_words(_text) if _name in _STRENGTHS else (), _STRENGTHS.get(_name, 0)))

ASK_TAGS = _words(_WORDING["tags"]["ask"])
HTML_TAGS = _words(_WORDING["tags"]["html"])
TEXT_KEYS = _words(_WORDING["json"]["text_keys"])
_ASKING_SPEAKERS = _words(_WORDING["speakers"]["ask"])
_ANSWERING_SPEAKERS = _words(_WORDING["speakers"]["answer"])
_STYLE_HEADINGS = _words(_WORDING["headings"]["style"])
_HARNESS = _words(_WORDING["tags"]["harness"])

_SENTENCES = _WORDING["sentences"]
_FRAME = _pattern(_SENTENCES["frame"], about=_SENTENCES["about"])
_ASKS = _pattern(_SENTENCES["ask"], verbs="|".join(sorted(_words(_SENTENCES["verbs"]))))
_REFERS = _pattern(_SENTENCES["refers"])
_COMMON = _words(_SENTENCES["common"])
_TURNS = _WORDING["turns"]
_FOLLOW_UP = _pattern(_TURNS["follow_up"])
_OPENING = _pattern(_TURNS["opening"])
_PRONOUN = _pattern(_TURNS["pronoun"])
_FUNCTION_WORDS = _words(_TURNS["function_words"]) | _COMMON | _words(_SENTENCES["verbs"])
_CONTENT = re.compile(r"[^\W\d_]{4,}")
_HAN = re.compile(r"[\u4e00-\u9fff]{2,}")
_HAN_COMMON = _words(_TURNS["han_function_pairs"])
_FOLLOW_UP_CHARS = 200
_STEM_CHARS = 5
_FEW_WORDS = 3
_LONG_WORDS = re.compile(r"[^\W\d_]{6,}")
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|i'm|i've|my|My|me|we|We|our|Our)\b|我")
_CHARS_PER_PERSON = 400
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|(?<=[。！？!?；])")
_NUMBERED = re.compile(r"[\s#]*\d{1,3}$|^(?:the|your|my|here is the)\s+|(?:\s+is|是|为|如下)$|'s(?=\s)")
_SENTENCE_CHARS = 400
"""Of a sentence, that are looked at."""


def label_kind(label: str) -> LabelKind | None:
    """Return what a part under `label` is, if it is known: `Context 2` is data as `Context` is.

    `q` and `a` are names of variables; `Q` and `A` are labels.
    """
    return _KIND_OF.get(_plain_label(label)) if len(label) > 1 or not label.islower() else None


def heading_kind(heading: str) -> LabelKind | None:
    """Return what a part under `heading` is, if it is known: by the whole heading, or by its last word."""
    plain = _plain_label(heading)
    return _KIND_OF.get(plain) or ("style" if plain.rsplit(" ", 1)[-1] in _STYLE_HEADINGS else None)


def speaker_kind(label: str) -> LabelKind | None:
    """Return `ask` for one who asks in a dialogue, `answer` for one who answers."""
    plain = _plain_label(label)
    return "ask" if plain in _ASKING_SPEAKERS else "answer" if plain in _ANSWERING_SPEAKERS else None


def label_strength(label: str) -> int:
    """Return how surely a part under `label` is the ask: 3 for a question, 1 for an input, 0 for others."""
    return _STRENGTH_OF.get(_plain_label(label), 0)


def _plain_label(label: str) -> str:
    plain = label.strip(" *_#:：()[]?？").replace("*", "").replace("_", " ").replace("-", " ").casefold()
    return _NUMBERED.sub("", plain).strip()


def tag_name(name: str) -> str:
    """Return a tag's name as `ASK_TAGS` has them."""
    return name.replace("_", " ").replace("-", " ").casefold()


def is_harness_tag(name: str) -> bool:
    """Return whether a tag holds what an application tells the model of itself."""
    return not _HARNESS.isdisjoint(name.split())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, without those that are empty."""
    return [each.strip() for each in _SENTENCE_ENDS.split(text) if each.strip()]


def is_frame(sentence: str) -> bool:
    """Return whether a sentence says how to answer, who the assistant is, or that a question follows."""
    return _FRAME.search(sentence[:_SENTENCE_CHARS]) is not None


def asks(sentence: str) -> bool:
    """Return whether a sentence is a question or tells to do something."""
    is_question = sentence.rstrip("\"'”’)] ")[-1:] in "?？"
    return (
        _ASKS.search(sentence[-_SENTENCE_CHARS:] if is_question else sentence[:_SENTENCE_CHARS]) is not None
    )


def refers_to_data(ask: str) -> bool:
    """Return whether `ask` is about a text beside it, as "Summarize this" is."""
    return _REFERS.search(ask[:2000]) is not None


def shares_words(ask: str, data: str) -> bool:
    """Return whether an ask and the data beside it share two long words: they are about one thing."""
    words = {word.casefold() for word in _LONG_WORDS.findall(ask[:2000])} - _COMMON
    return len(words & {word.casefold() for word in _LONG_WORDS.findall(data[:20_000])}) > 1


def is_impersonal(text: str) -> bool:
    """Return whether hardly anybody speaks of themselves, as in a passage of an article."""
    return len(_FIRST_PERSON.findall(text)) * _CHARS_PER_PERSON <= len(text)


def is_follow_up(ask: str) -> bool:
    """Return whether `ask` adds nothing to what was said before: "Are you sure? Check it again"."""
    if len(ask) > _FOLLOW_UP_CHARS:
        return False
    clauses = split_sentences(ask.replace("\n", " ").replace("，", "。"))
    return all(_FOLLOW_UP.search(clause) for clause in clauses)


def says_nothing(ask: str) -> bool:
    """Return whether `ask` is a greeting or a follow-up: nothing that another turn can go on from."""
    return is_follow_up(ask) or all(map(is_frame, split_sentences(ask)))


def opens_follow_up(ask: str) -> bool:
    """Return whether `ask` opens like a turn that goes on from another, or speaks of what was said."""
    begin = ask[:_SENTENCE_CHARS]
    if _OPENING.search(begin):
        return True
    return _PRONOUN.search(begin) is not None and len(content_words(begin)) <= _FEW_WORDS


def content_words(text: str) -> set[str]:
    """Return the words of `text` that say what it is about; of Chinese, pairs of characters."""
    found = {word.casefold() for word in _CONTENT.findall(text)} - _FUNCTION_WORDS
    words = set(map(_stem, found))
    for run in _HAN.findall(text):
        words.update(run[at : at + 2] for at in range(len(run) - 1))
    return words - _HAN_COMMON


def _stem(word: str) -> str:
    """Return what `reduce`, `reduces` and `reduction` have in common, roughly."""
    if len(word) > _STEM_CHARS:
        return word[:_STEM_CHARS]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and word.isascii() else word
