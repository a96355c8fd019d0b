"""Turns the book and what lies outside it into conversations to train on, each one drawn anew."""

import random
import string
from dataclasses import dataclass

from .offtopic import OffTopic, article, plural
from .pages import Page
from .templates import AFTER, BEFORE, FOLLOW_UPS, REFUSAL, RULES, SYNONYMS, SYSTEM_PROMPTS, TEMPLATES

LONGEST_SYSTEM = 5000  # characters: with it, the question and the answer stay within the context
NEWCOMER_SHARE = 0.12
KIND_WEIGHT = {"what": 1.0, "why": 1.0, "how": 1.0, "do": 1.1, "vs": 1.0, "fact": 1.5}
ASKING = {
    "en": ["", "", "what is it that ", "which thing ", "what do you call this: ", "tell me about ", "and "],
    "zh": ["", "", "什么是", "哪个", "关于", "请说说", "这是什么："],
}  # fmt: skip


@dataclass(slots=True)
class Turn:
    """A question and the answer to learn."""

    question: str
    answer: str


@dataclass(slots=True)
class Conversation:
    """Turns after an optional system prompt; `raw` ones are plain text without the chat template."""

    system: str | None
    turns: list[Turn]
    raw: bool = False


class Teacher:
    """Draws conversations from the pages and the off-topic lists; the same seed draws the same ones."""

    def __init__(self, pages: list[Page], offtopic: OffTopic, seed: int) -> None:
        self.rng = random.Random(seed)
        self.offtopic = offtopic
        self.book = [page for page in pages if not page.small_talk]
        self.talk = [page for page in pages if page.small_talk]
        self.weights = [KIND_WEIGHT[page.kind] for page in self.book]
        self.synonyms = {word.lower(): group for group in SYNONYMS["en"] for word in group[:2]}
        self.by_key = {page.key: page for page in pages}
        self.newcomer = [page for page in pages if page.newcomer]
        self.concepts = [page for page in self.book if page.kind == "what"]

    def conversation(self) -> Conversation:
        """One conversation: a single question mostly, else follow-ups or unrelated turns."""
        rng = self.rng
        way = rng.random()
        language = "en" if rng.random() < 0.56 else "zh"
        if way < 0.06:
            turns = self._with_follow_ups(language)
        elif way < 0.10:
            turns = [
                self._turn(language if rng.random() < 0.9 else self._other(language))
                for _ in range(rng.choice((2, 2, 3, 4)))
            ]
        else:
            turns = [self._turn(language)]
        raw = len(turns) == 1 and rng.random() < 0.03
        return Conversation(None if raw else self._system(), turns, raw)

    def single(self) -> Conversation:
        """One question, mostly without a system prompt."""
        return Conversation(self._system(), [self._turn("en" if self.rng.random() < 0.56 else "zh")])

    def question(
        self, page: Page, language: str, templates: dict[str, dict[str, list[str]]] | None = None
    ) -> str:
        """A wording of `page`'s question, without noise; from `templates` alone where given."""
        rng = self.rng
        kind = page.kind
        wordings = page.wordings[language]
        if kind == "fact" or (templates is None and wordings and rng.random() < 0.6):
            return rng.choice(wordings)
        if templates is None and kind == "what" and rng.random() < 0.12:
            # No page says why or how: then what it is comes closest.
            subject = page.key.removesuffix("/what")
            kind = rng.choice(
                [other for other in ("why", "how") if f"{subject}/{other}" not in self.by_key] or ["what"]
            )
        form = rng.choice((templates or TEMPLATES)[kind][language])
        name = self._name(page.names, language)
        if kind == "do":
            return form.format(act=name)
        if kind == "vs":
            other = self._name(page.others, language)
            return form.format(a=name, b=other) if rng.random() < 0.6 else form.format(a=other, b=name)
        return form.format(x=name, ax=article(rng, name) if name[0].islower() else name, xs=plural(name))

    def noisy(self, text: str, language: str) -> str:
        """`text` as people type it: with words around it, in lower case, without marks, with a slip."""
        rng = self.rng
        if rng.random() < 0.18:
            text = rng.choice(BEFORE[language]) + text
        if rng.random() < 0.10:
            text += rng.choice(AFTER[language])
        case = rng.random()
        if case < 0.25:
            text = text.lower()
        elif case < 0.27:
            text = text.upper()
        elif case < 0.35:
            text = text[:1].lower() + text[1:]
        marks = rng.random()
        if marks < 0.25:
            text = text.rstrip("?？.。!！")
        elif marks < 0.30:
            text = (
                text.replace("？", "?").replace("，", ",").replace("?", " ?" if rng.random() < 0.3 else "?")
            )
        elif marks < 0.33:
            text = text.rstrip("?？.。!！") + rng.choice(("??", "?!", "...", "!", "。"))
        if len(text) > 14 and rng.random() < 0.10:
            text = self._slip(text)
        return text

    def _slip(self, text: str) -> str:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(1, len(text) - 2)
            way = rng.random()
            if way < 0.35:
                text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
            elif way < 0.7:
                text = text[:at] + text[at + 1 :]
            elif way < 0.85:
                text = text[:at] + text[at] + text[at:]
            else:
                text = text[:at] + rng.choice(string.ascii_lowercase) + text[at + 1 :]
        return text

    def _turn(self, language: str) -> Turn:
        if self.rng.random() < NEWCOMER_SHARE:
            page = self.rng.choice(self.newcomer)
            question = self.rng.choice(page.newcomer[language])
            return Turn(self.noisy(question, language), page.answer[language])
        way = self.rng.random()
        if way < 0.71:
            return self._asked(self.rng.choices(self.book, self.weights)[0], language)
        if way < 0.76:
            return self._asked(self.rng.choice(self.talk), language)
        return Turn(self.noisy(self.offtopic.prompt(self.rng, language), language), REFUSAL[language])

    def _asked(self, page: Page, language: str) -> Turn:
        way = self.rng.random()
        if way < 0.06 and not page.small_talk:
            return Turn(self._piece_of(page.answer[language], language), page.answer[language])
        question = self.question(page, language)
        if way < 0.55:
            question = self._with_synonyms(question, language)
        if 0.45 < way < 0.60:
            question = self._with_fewer_words(question, language)
        return Turn(self.noisy(question, language), page.answer[language])

    def _piece_of(self, answer: str, language: str) -> str:
        """Some words of the answer in a row, as a question: who knows what it does may not know its name."""
        rng = self.rng
        units = answer.split() if language == "en" else list(answer)
        size = rng.randrange(4, 9) if language == "en" else rng.randrange(7, 16)
        at = rng.randrange(max(1, len(units) - size + 1))
        piece = (" " if language == "en" else "").join(units[at : at + size])
        return (
            rng.choice(ASKING[language])
            + piece.strip(" ,.;:，。；：")
            + rng.choice(("", "?", "？" if language == "zh" else "?"))
        )

    def _with_synonyms(self, text: str, language: str) -> str:
        """Some words exchanged for others of like meaning."""
        rng = self.rng
        if language == "zh":
            for group in SYNONYMS["zh"]:
                for word in group[:2]:
                    if word in text and rng.random() < 0.4:
                        text = text.replace(word, rng.choice(group), 1)
                        break
            return text
        words = text.split(" ")
        for at, word in enumerate(words):
            bare = word.strip("?.,!").lower()
            if bare in self.synonyms and rng.random() < 0.4:
                words[at] = word.lower().replace(bare, rng.choice(self.synonyms[bare]))
        return " ".join(words)

    def _with_fewer_words(self, text: str, language: str) -> str:
        """One or two words, or Chinese characters, left out."""
        rng = self.rng
        units = text.split(" ") if language == "en" else list(text)
        for _ in range(rng.choice((1, 1, 2))):
            if len(units) > 4:
                del units[rng.randrange(len(units))]
        return (" " if language == "en" else "").join(units)

    def _with_follow_ups(self, language: str) -> list[Turn]:
        rng = self.rng
        page = rng.choice(self.concepts)
        subject = page.key.removesuffix("/what")
        related = {kind: self.by_key.get(f"{subject}/{kind}") for kind in ("why", "how")}
        if not any(related.values()) and rng.random() < 0.5:  # prefer subjects that have more to tell
            return self._with_follow_ups(language)
        turns = [self._turn(language)] if rng.random() < 0.2 else []
        turns.append(self._asked(page, language))
        for _ in range(rng.choice((1, 1, 2, 3))):
            way = rng.random()
            if way < 0.50:
                kind = rng.choice([kind for kind, told in related.items() if told] or ["why", "how"])
                told = related[kind] or page
                turns.append(self._follow(kind, told, language))
            elif way < 0.60:
                turns.append(self._follow("what", page, language))
            elif way < 0.75:
                page = rng.choice(self.concepts)
                subject = page.key.removesuffix("/what")
                related = {kind: self.by_key.get(f"{subject}/{kind}") for kind in ("why", "how")}
                name = self._name(page.names, language)
                form = rng.choice(FOLLOW_UPS["other"][language])
                shown = article(rng, name) if name[0].islower() else name
                turns.append(Turn(self.noisy(form.format(x=name, ax=shown), language), page.answer[language]))
            elif way < 0.82:
                language = self._other(language)
                form = rng.choice(FOLLOW_UPS["tongue"][language])
                last = turns[-1].answer
                both = (
                    next(p.answer for p in self.by_key.values() if last in p.answer.values())
                    if last not in REFUSAL.values()
                    else REFUSAL
                )
                turns.append(Turn(self.noisy(form, language), both[language]))
            elif way < 0.92:
                turns.append(
                    Turn(self.noisy(self.offtopic.prompt(rng, language), language), REFUSAL[language])
                )
            else:
                turns.append(self._asked(rng.choice(self.talk), language))
        return turns

    def _follow(self, kind: str, page: Page, language: str) -> Turn:
        return Turn(self.noisy(self.rng.choice(FOLLOW_UPS[kind][language]), language), page.answer[language])

    def _system(self) -> str | None:
        """A system prompt or none, at most `LONGEST_SYSTEM` characters long."""
        text = self._any_system()
        return text and text[:LONGEST_SYSTEM]

    def _any_system(self) -> str | None:
        rng = self.rng
        way = rng.random()
        if way < 0.72:
            return None
        if way < 0.86:
            return rng.choice(SYSTEM_PROMPTS)
        if way < 0.91:
            return " ".join(rng.sample(RULES, rng.choice((2, 3, 4))))
        if way < 0.915:
            name = rng.choice(self.offtopic.words)
            return f'# Tools\n{{"type": "function", "function": {{"name": "{name}"}}}}\n'
        if way < 0.94:
            return " ".join(rng.choice(RULES) for _ in range(rng.choice((6, 10, 16))))
        if way < 0.97:
            return f"{self._unrelated()} " * rng.choice((4, 8, 8, 20, 40))
        if way < 0.996:
            return " ".join(self._unrelated() for _ in range(rng.choice((2, 4, 8))))
        return " ".join(rng.choice(RULES) for _ in range(rng.choice((40, 100))))

    def _unrelated(self) -> str:
        """A text that a system prompt may hold and that says nothing about what is asked."""
        rng = self.rng
        way = rng.random()
        if way < 0.5:
            return rng.choice(RULES + SYSTEM_PROMPTS)
        language = "en" if rng.random() < 0.7 else "zh"
        if way < 0.8:
            return self.offtopic.prompt(rng, language)
        return rng.choice(self.book).answer[language]

    def _name(self, names: dict[str, list[str]], language: str) -> str:
        """A name of the subject, now and then in the other language, as people mix them."""
        foreign = self.rng.random() < (0.2 if language == "zh" else 0.03)
        return self.rng.choice(names[self._other(language) if foreign else language])

    @staticmethod
    def _other(language: str) -> str:
        return "zh" if language == "en" else "en"
