"""The language of a prompt, by its ISO 639-1 code: by script where that tells, else by common words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from radixway.bundled import read_toml
from radixway.semantics.signals.base import SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion

_MAX_CHARS = 4000

_SCRIPTS = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\u1100-\u11ff\uac00-\ud7af]"),
    "zh": re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "ar": re.compile(r"[\u0600-\u06ff\u0750-\u077f]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
}
_LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏ]")
_WORDS = re.compile(r"[^\W\d_]+")

_LANGUAGES_OF: dict[str, list[str]] = {}
for _code, _words in read_toml("common_words.toml").items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_code)


def detect_language(text: str) -> tuple[str, float]:
    """Return the code and how sure it is; ("", 0) for text without letters of a script known here.

    Japanese is told from Chinese by its kana. Among Latin languages the common words decide, and English is
    what a text with none of them is taken for.
    """
    text = text[:_MAX_CHARS]
    counts = {code: len(pattern.findall(text)) for code, pattern in _SCRIPTS.items()}
    # A Chinese character says about as much as two Latin letters.
    weights = {code: count * (2 if code in ("zh", "ja", "ko") else 1) for code, count in counts.items()}
    if weights["ja"]:
        weights["ja"] += weights.pop("zh")
    latin = len(_LATIN.findall(text))
    total = latin + sum(weights.values())
    if not total:
        return "", 0.0
    code = max(weights, key=weights.__getitem__)
    if weights[code] * 2 >= total:
        return code, weights[code] / total
    return _latin_language(text)


class LanguageDetector:
    """The language under its code, and under the empty name as the value."""

    kind = "language"
    needs_encoding = False

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """Yield one language, if any."""
        code, confidence = detect_language(question.text)
        if code:
            yield SignalValue("language", "", code, True, confidence)
            yield SignalValue("language", code, code, True, confidence)


def _latin_language(text: str) -> tuple[str, float]:
    votes: Counter[str] = Counter()
    for word in _WORDS.findall(text.casefold()):
        languages = _LANGUAGES_OF.get(word, ())
        for code in languages:
            votes[code] += 1 / len(languages)  # type: ignore[assignment]
    if not votes:
        return "en", 0.5
    code, count = votes.most_common(1)[0]
    return code, count / sum(votes.values())
