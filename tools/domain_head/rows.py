"""Labelled text: what was given, with its sources' licences, and what was written for this project."""

import gzip
import hashlib
import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from radixway.core.config.semantic import CATEGORIES as LABELS

AUTHORED = Path(__file__).parents[1] / "domain_data"
HELD_OUT_SHARE, CALIBRATION_SHARE = 0.2, 0.02
"""Of the groups of exam questions."""
FORMS = {"en": (3, 3), "zh": (1, 1)}
"""In how many forms a topic is put: those that serve every label, and its label's own."""
MOST_MORAL_SCENARIOS = 120  # 624 of MMLU's rows are one sentence with two stories put into it

EXAMS = frozenset(["mmlu_pro", "mmlu", "gaokao", "agieval"])

_OTHER_INTENTS = frozenset(
    [
        "alarm",
        "calendar",
        "calendar_update",
        "cancel_reservation",
        "car_rental",
        "carry_on",
        "change_ai_name",
        "change_language",
        "change_speed",
        "confirm_reservation",
        "cook_time",
        "date",
        "directions",
        "distance",
        "do_you_have_pets",
        "exchange_rate",
        "find_phone",
        "flight_status",
        "flip_coin",
        "food_last",
        "fun_fact",
        "gas",
        "gas_type",
        "goodbye",
        "greeting",
        "how_busy",
        "how_old_are_you",
        "ingredient_substitution",
        "ingredients_list",
        "international_visa",
        "jump_start",
        "lost_luggage",
        "make_call",
        "maybe",
        "meal_suggestion",
        "measurement_conversion",
        "meeting_schedule",
        "mpg",
        "next_holiday",
        "next_song",
        "no",
        "oil_change_how",
        "order_status",
        "play_music",
        "plug_type",
        "recipe",
        "reminder",
        "repeat",
        "restaurant_reservation",
        "restaurant_reviews",
        "restaurant_suggestion",
        "schedule_maintenance",
        "shopping_list",
        "smart_home",
        "spelling",
        "tell_joke",
        "text",
        "thank_you",
        "time",
        "timer",
        "timezone",
        "tire_change",
        "todo_list",
        "traffic",
        "translate",
        "travel_alert",
        "travel_notification",
        "travel_suggestion",
        "uber",
        "weather",
        "what_are_your_hobbies",
        "what_can_i_ask_you",
        "what_is_your_name",
        "what_song",
        "where_are_you_from",
        "who_made_you",
        "whisper_mode",
        "yes",
    ]
)
_CLINC_ROWS = 500


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text."""

    text: str
    label: str
    source: str
    weight: float = 1.0
    """What it counts in training."""

    @property
    def is_exam(self) -> bool:
        """Whether it is an exam question, which reads otherwise than what people ask every day."""
        return self.source in EXAMS


def exam_rows(data: Path) -> list[Row]:
    """English exam questions: MMLU-Pro and MMLU."""
    pro = [
        Row(r["question"], r["category"], "mmlu_pro")
        for r in _json_lines(data / "domain/mmlu_pro_test.jsonl.gz")
    ]
    mmlu, scenarios = [], 0
    for r in _json_lines(data / "routing/routellm_mmlu_correctness.jsonl.gz"):
        scenarios += r["subject"] == "moral_scenarios"
        if r["subject"] != "moral_scenarios" or scenarios <= MOST_MORAL_SCENARIOS:
            mmlu.append(Row(r["question"], r["category"], "mmlu"))
    return pro + mmlu


def chinese_exam_rows(data: Path) -> list[Row]:
    """Chinese exam questions: GAOKAO-Bench and AGIEval, seven of the labels."""
    gaokao = [
        Row(r["question"], r["category"], "gaokao")
        for r in _json_lines(data / "domain/zh_gaokao_bench.jsonl.gz")
    ]
    agieval = [
        Row(r["question"], r["category"], "agieval") for r in _json_lines(data / "domain/zh_agieval.jsonl.gz")
    ]
    return gaokao + agieval


def assistant_rows(data: Path) -> list[Row]:
    """What people ask of a phone's assistant, from CLINC150: all of it `other`."""
    texts = [
        r["text"] for r in _json_lines(data / "routing/clinc150.jsonl.gz") if r["intent"] in _OTHER_INTENTS
    ]
    chosen = random.Random(5).sample(sorted(set(texts)), min(_CLINC_ROWS, len(texts)))
    return [Row(text, "other", "clinc") for text in chosen]


def written_prompts() -> list[Row]:
    """Everyday prompts written for training, and topics put into forms of questions; none that judges."""
    judges = {row.text for row in fresh_prompts()} | {row.text for _, row in development_prompts()}
    rows = []
    for language in ("en", "zh"):
        rows += [
            Row(text, label, f"prompts_{language}") for label, text in _sections(f"training_{language}.txt")
        ]
        rows += _topics_in_forms(language)
    words = [(label, word) for label, line in _sections("words_zh.txt") for word in line.split()]
    rows += [Row(word, label, "words_zh") for label, word in words]
    return [row for row in rows if row.text not in judges]


def development_prompts() -> list[tuple[str, Row]]:
    """Everyday prompts with their topics, by which choices and temperatures were made."""
    return _prompts_with_topics("heldout", "natural") + _prompts_with_topics("final", "final")


def fresh_prompts() -> list[Row]:
    """Everyday prompts that nobody who trains has read: what figures are to be believed of."""
    return [row for _, row in _prompts_with_topics("fresh", "fresh")]


def apart_from_development(rows: list[Row]) -> list[Row]:
    """Rows whose text has none of the development prompts' topics under its label and in its language."""
    topics: dict[tuple[str, bool], set[str]] = {}
    for topic, row in development_prompts():
        topics.setdefault((row.label, row.source.endswith("zh")), set()).add(topic)
    patterns = {key: re.compile("|".join(map(_pattern, sorted(each)))) for key, each in topics.items()}
    return [
        row
        for row in rows
        if row.is_exam or not patterns[row.label, row.source.endswith("zh")].search(row.text.lower())
    ]


def _pattern(topic: str) -> str:
    """`topic` where it begins a word, or anywhere in Chinese."""
    return (r"\b" if topic.isascii() else "") + re.escape(topic.lower())


def part(group: str) -> str:
    """`held out`, `calibration` or `training`: where the near-duplicates that `group` names belong."""
    place = int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 0x100000000
    if place < HELD_OUT_SHARE:
        return "held out"
    return "calibration" if place < HELD_OUT_SHARE + CALIBRATION_SHARE else "training"


def weighted(rows: list[Row], weights: dict[str, float]) -> list[Row]:
    """The same rows with what their sources count."""
    return [replace(row, weight=weights.get(row.source, 1.0)) for row in rows]


def balanced(rows: list[Row]) -> list[Row]:
    """The same rows, every label's everyday ones weighing the same in sum."""
    everyday = [row for row in rows if not row.is_exam]
    sums = {label: sum(row.weight for row in everyday if row.label == label) for label in LABELS}
    share = sum(sums.values()) / len(LABELS)
    return [row if row.is_exam else replace(row, weight=row.weight * share / sums[row.label]) for row in rows]


def _topics_in_forms(language: str) -> list[Row]:
    """Each topic in some forms, chosen by its own name: another topic does not change them."""
    forms: dict[str, list[str]] = {}
    for label, form in _sections(f"forms_{language}.txt"):
        forms.setdefault(label, []).append(form)
    general, special = FORMS[language]
    rows = []
    for label, topic in _topics(language):
        choice = random.Random(f"{language} {label} {topic}")
        chosen = choice.sample(forms["any"], general) + choice.sample(forms[label], special)
        rows += [Row(form.replace("{}", topic), label, f"topics_{language}") for form in chosen]
        if language == "en":
            rows.append(Row(topic, label, "terms_en"))
    return rows


def _topics(language: str) -> list[tuple[str, str]]:
    lines = _sections(f"topics_{language}.txt")
    return [
        (label, topic.strip()) for label, line in lines for topic in re.split("[;；]", line) if topic.strip()
    ]


def _prompts_with_topics(stem: str, source: str) -> list[tuple[str, Row]]:
    found = []
    for language in ("en", "zh"):
        for label, line in _sections(f"{stem}_{language}.txt"):
            topic, _, text = line.partition(" | ")
            found.append((topic, Row(text, label, f"{source}_{language}")))
    return found


def _sections(name: str) -> list[tuple[str, str]]:
    """Lines under `[label]` headings, as (label, line); \\n in a line stands for a line break."""
    label, found = "", []
    for line in (AUTHORED / name).read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"\[([a-z ]+)\]", line):
            label = heading[1]
        elif line.strip() and not line.startswith("# "):
            found.append((label, line.replace("\\n", "\n")))
    return found


def _json_lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def count_by(rows: list[Row]) -> dict[str, int]:
    """Rows per source."""
    ordered = sorted(rows, key=lambda row: row.source)
    return {source: len(list(group)) for source, group in itertools.groupby(ordered, lambda row: row.source)}
