"""How good the guide is on questions it never saw.

An answer is right when, among all answers of the book and the refusal in its language, the page's own is the
nearest by token F1, and that F1 is at least 0.7. The refusal, where it is wanted, is judged likewise.
"""

import re
from collections import Counter
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from .conversations import Teacher
from .offtopic import OffTopic
from .pages import LANGUAGES, Page, is_chinese, read_pages
from .templates import HELD_OUT, HELD_OUT_FOLLOW_UPS, REFUSAL

RIGHT_F1 = 0.7
REFUSED = "(refusal)"
LONG_SYSTEM = "You are the guide of a small museum of machines. " * 40
Chat = list[dict[str, str]]


@torch.inference_mode()
def answer_all(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    chats: list[Chat],
    batch: int = 48,
    longest: int = 110,
) -> list[str]:
    """The greedy answer to each chat."""
    texts = [
        tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats
    ]
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    answers = [""] * len(texts)
    tokenizer.padding_side = "left"
    for start in range(0, len(order), batch):
        group = order[start : start + batch]
        encoded = tokenizer(
            [texts[at] for at in group], return_tensors="pt", padding=True, add_special_tokens=False
        )
        made = model.generate(
            input_ids=encoded.input_ids,
            attention_mask=encoded.attention_mask,
            max_new_tokens=longest,
            do_sample=False,
            temperature=None,
            top_p=None,
        )
        for at, row in zip(group, made, strict=True):
            answers[at] = tokenizer.decode(
                row[encoded.input_ids.shape[1] :], skip_special_tokens=True
            ).strip()
    return answers


def bag(text: str) -> Counter[str]:
    """Words in lower case, and each Chinese character."""
    return Counter(re.findall(r"[a-z0-9_]+|[一-鿿]", text.lower()))


def f1(one: Counter[str], other: Counter[str]) -> float:
    """Token F1 of two bags."""
    common = sum((one & other).values())
    return 2 * common / (sum(one.values()) + sum(other.values())) if common else 0.0


class Judge:
    """Says which answer of the book an answer is."""

    def __init__(self, pages: list[Page]) -> None:
        self.known = {
            language: {page.key: bag(page.answer[language]) for page in pages} for language in LANGUAGES
        }
        for language in LANGUAGES:
            self.known[language][REFUSED] = bag(REFUSAL[language])

    def key_of(self, answer: str, language: str) -> str | None:
        """The key of the nearest answer, or None when nothing is near enough."""
        given = bag(answer)
        key, near = max(
            ((key, f1(given, words)) for key, words in self.known[language].items()), key=lambda pair: pair[1]
        )
        return key if near >= RIGHT_F1 else None


def read_held_out() -> tuple[list[tuple[set[str], str]], dict[str, list[str]]]:
    """The hand-written evaluation questions: ([(accepted keys, question)], {language: off-topic prompts})."""
    questions: list[tuple[set[str], str]] = []
    offtopic: dict[str, list[str]] = {"en": [], "zh": []}
    section = ""
    for line in (Path(__file__).parent / "heldout.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.strip() or line.startswith("#"):
            continue
        elif section == "book":
            keys, _, question = line.partition("|")
            questions.append(({key.strip() for key in keys.split(",")}, question.strip()))
        else:
            offtopic[section.split()[1]].append(line.strip())
    return questions, offtopic


def subject_of(key: str) -> str:
    """The concept a page is about: "KV cache" for "KV cache/what" and "KV cache/why"; else the key itself."""
    subject, _, kind = key.rpartition("/")
    return subject if kind in ("what", "why", "how") else key


def asked(question: str, system: str | None = None) -> Chat:
    """A chat of one question."""
    lead = [{"role": "system", "content": system}] if system else []
    return [*lead, {"role": "user", "content": question}]


def evaluate(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, show_wrong: bool = False
) -> dict[str, dict[str, float]]:
    """All figures: {set of questions: {asked, right, share, refused}}, English and Chinese apart."""
    pages = read_pages()
    teacher = Teacher(pages, OffTopic(), seed=99)
    judge = Judge(pages)
    fresh, offtopic = read_held_out()
    known = {page.key for page in pages}
    unknown = {key for keys, _ in fresh for key in keys} - known
    if unknown:
        raise ValueError(f"heldout.txt names pages that do not exist: {sorted(unknown)}")
    sets: dict[str, list[tuple[set[str], Chat, str]]] = {}

    def put(name: str, language: str, keys: set[str], chat: Chat) -> None:
        sets.setdefault(f"{name}, {language}", []).append((keys, chat, language))

    for language in LANGUAGES:
        for page in pages:
            if page.kind != "fact":
                put(
                    "book: unseen question forms",
                    language,
                    {page.key},
                    asked(teacher.question(page, language, HELD_OUT)),
                )
            if not page.small_talk:
                put("book: trained wordings", language, {page.key}, asked(teacher.question(page, language)))
            for wording in page.held_out[language]:
                name = "small talk" if page.small_talk else "book"
                put(f"{name}: unseen wordings", language, {page.key}, asked(wording))
    for keys, question in fresh:
        language = "zh" if is_chinese(question) else "en"
        put("book: written for the test only", language, keys, asked(question))
        put("same, long unrelated system prompt", language, keys, asked(question, LONG_SYSTEM))
    for language in LANGUAGES:
        for page in pages:
            subject, _, kind = page.key.rpartition("/")
            if kind in HELD_OUT_FOLLOW_UPS and f"{subject}/what" in known:
                first = teacher.by_key[f"{subject}/what"]
                chat = [
                    *asked(teacher.question(first, language)),
                    {"role": "assistant", "content": first.answer[language]},
                    {"role": "user", "content": teacher.rng.choice(HELD_OUT_FOLLOW_UPS[kind][language])},
                ]
                put("book: unseen follow-ups", language, {page.key}, chat)
        for prompt in offtopic[language]:
            put("off-topic: written for the test only", language, {REFUSED}, asked(prompt))
            put("off-topic, long system prompt", language, {REFUSED}, asked(prompt, LONG_SYSTEM))
        for prompt in teacher.offtopic.sampled_held_out[language]:
            put("off-topic: unseen, sampled", language, {REFUSED}, asked(prompt))
    report: dict[str, dict[str, float]] = {}
    for name, cases in sets.items():
        answers = answer_all(model, tokenizer, [chat for _, chat, _ in cases])
        keys = [
            judge.key_of(answer, language) for answer, (_, _, language) in zip(answers, cases, strict=True)
        ]
        right = sum(key in wanted for key, (wanted, _, _) in zip(keys, cases, strict=True))
        subjects = [{subject_of(key) for key in wanted} for wanted, _, _ in cases]
        near = sum(
            key is not None and subject_of(key) in wanted for key, wanted in zip(keys, subjects, strict=True)
        )
        report[name] = {
            "asked": len(cases),
            "right": right,
            "share": round(right / len(cases), 4),
            "share_on_subject": round(near / len(cases), 4),
            "refused": keys.count(REFUSED),
        }
        if show_wrong and "trained" not in name and "long" not in name:
            for key, answer, (wanted, chat, _) in zip(keys, answers, cases, strict=True):
                if key not in wanted:
                    print(f"[{name}] {chat[-1]['content']!r}, wanted {sorted(wanted)}", flush=True)
                    print(f"    got {key}: {answer[:120]}", flush=True)
    return report


def print_report(report: dict[str, dict[str, float]]) -> None:
    """The figures as a table."""
    print(f"{'':52} asked  right  share  on subject  refused")
    for name, row in sorted(report.items()):
        shares = f"{row['share']:6.1%}  {row['share_on_subject']:10.1%}"
        print(f"{name:52} {row['asked']:5d}  {row['right']:5d}  {shares}  {row['refused']:5d}")
