"""What the guide must decline: subjects put into the book's own question forms, whole prompts, sampled ones.

The same forms as the book's on purpose: the model has to look at the subject, not at the wording.
"""

import gzip
import random
from pathlib import Path

from .pages import PAGES, is_chinese
from .templates import OFF_TOPIC, TEMPLATES

HERE = Path(__file__).parent
SAMPLED = HERE / "offtopic_sampled.txt.gz"  # one prompt a line, "\\n" for a line break; sources in NOTICE


def article(rng: random.Random, subject: str) -> str:
    """`subject` with, mostly, the article a person would put before it."""
    if subject.startswith(("a ", "an ", "the ")) or rng.random() < 0.4:
        return subject
    if rng.random() < 0.15:
        return f"the {subject}"
    return f"{'an' if subject[0].lower() in 'aeiou' else 'a'} {subject}"


def plural(subject: str) -> str:
    """A plural good enough for a question typed in a hurry."""
    for lead in ("a ", "an ", "the "):
        subject = subject.removeprefix(lead)
    return (
        subject
        if subject.endswith("s")
        else subject[:-1] + "ies"
        if subject.endswith("ry")
        else subject + "s"
    )


class OffTopic:
    """An endless supply of prompts outside the book."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {}
        section = ""
        for line in (HERE / "offtopic.txt").read_text().splitlines():
            if line.startswith("["):
                section = line.strip("[]")
                self.lists[section] = []
            elif line and not line.startswith("#"):
                separator = "|" if section in ("prompts", "提问") else ";"
                self.lists[section] += [word.strip() for word in line.split(separator) if word.strip()]
        lines = gzip.decompress(SAMPLED.read_bytes()).decode().splitlines()
        sampled = [line.replace("\\n", "\n") for line in lines]
        self.sampled = {
            "zh": [text for text in sampled if is_chinese(text)],
            "en": [text for text in sampled if not is_chinese(text)],
        }
        for texts in self.sampled.values():
            random.Random(5).shuffle(texts)
        # The last 100 of each language are for the evaluation.
        self.sampled_held_out = {language: texts[-100:] for language, texts in self.sampled.items()}
        self.sampled = {language: texts[:-100] for language, texts in self.sampled.items()}
        words = {
            word
            for text in self.sampled["en"]
            for word in text.lower().split()
            if word.isalpha() and 3 < len(word) < 13
        }
        self.words = sorted(words - set(OFF_TOPIC["book_words_en"]) - set(_words_of_the_book()))
        runs = [run for text in self.sampled["zh"] for run in _chinese_runs(text)]
        self.words_zh = sorted(
            {run[at : at + size] for run in runs for size in (2, 3, 4) for at in range(0, len(run) - 4, 5)}
        )

    def subject(self, rng: random.Random, language: str) -> str:
        """A thing that is not in the book: from the lists, from ordinary words, made up, or a near miss."""
        way = rng.random()
        if language == "zh":
            if way < 0.6:
                return rng.choice(self.lists["东西"])
            if way < 0.9 and self.words_zh:
                return rng.choice(self.words_zh)
            return rng.choice(self.lists["东西"]) + rng.choice(OFF_TOPIC["book_words_zh"])
        if way < 0.5:
            return rng.choice(self.lists["things"])
        if way < 0.8:
            return " ".join(rng.choices(self.words, k=rng.choice((1, 1, 2, 2, 3))))
        if way < 0.9:
            word = "".join(rng.choices(OFF_TOPIC["syllables"], k=rng.choice((2, 3, 3, 4))))
            return rng.choice((word, word.title(), word.upper()))
        return f"{rng.choice(self.words)} {rng.choice(OFF_TOPIC['book_words_en'])}"

    def prompt(self, rng: random.Random, language: str) -> str:
        """One off-topic prompt in `language`."""
        way = rng.random()
        chinese = language == "zh"
        if way < 0.02 and not chinese:
            letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz    ", k=rng.randrange(6, 30)))
            return letters.strip() or "x"
        if way < 0.34:
            return rng.choice(self.sampled[language])
        if way < 0.48:
            return rng.choice(self.lists["提问" if chinese else "prompts"])
        if way < 0.75:
            kind = rng.choice(("what", "what", "what", "why", "how", "vs"))
            form = rng.choice(TEMPLATES[kind][language])
            subject, other = self.subject(rng, language), self.subject(rng, language)
            return form.format(
                x=subject,
                a=subject,
                b=other,
                xs=plural(subject),
                ax=article(rng, subject) if not chinese else subject,
            )
        if way < 0.88:
            act = rng.choice(self.lists["做事" if chinese else "acts"])
            return rng.choice(TEMPLATES["do"][language]).format(act=act)
        if chinese:
            if rng.random() < 0.6:
                return rng.choice(OFF_TOPIC["nations_zh"]).format(w=rng.choice(self.lists["国家"]))
            return self._sum(rng, OFF_TOPIC["sum_zh"])
        section = rng.choice(("countries", "people", "write", "translate", "sum"))
        if section == "write":
            form, about = rng.choice(self.lists["forms"]), rng.choice(self.lists["about"])
            return rng.choice(OFF_TOPIC["write"]).format(form=form, about=about)
        if section == "translate":
            phrase, tongue = rng.choice(self.lists["phrases"]), rng.choice(self.lists["languages"])
            return rng.choice(OFF_TOPIC["translate"]).format(phrase=phrase, language=tongue)
        if section == "sum":
            return self._sum(rng, OFF_TOPIC["sum_en"])
        return rng.choice(OFF_TOPIC[section]).format(w=rng.choice(self.lists[section]))

    @staticmethod
    def _sum(rng: random.Random, forms: list[str]) -> str:
        top = rng.choice((10, 100, 1000))
        return rng.choice(forms).format(
            n=rng.randrange(top), m=rng.randrange(1, top), op=rng.choice("+-*/×+")
        )


def _chinese_runs(text: str) -> list[str]:
    return "".join(letter if "一" <= letter <= "鿿" else " " for letter in text).split()


def _words_of_the_book() -> set[str]:
    text = "".join((HERE / name).read_text() for name in PAGES).lower()
    kept = "".join(letter if letter.isalpha() else " " for letter in text)
    return set(kept.split())
