"""The forms of questions, read from `forms.toml`.

In them `{x}` is a concept (`{ax}` with a fitting article, `{xs}` several of it), `{act}` a verb phrase,
`{a}` and `{b}` two things compared. Each table is keyed by the kind of question, then by language.
"""

import tomllib
from pathlib import Path

_FORMS = tomllib.loads((Path(__file__).parent / "forms.toml").read_text())

ByLanguage = dict[str, list[str]]
TEMPLATES: dict[str, ByLanguage] = _FORMS["asked"]
HELD_OUT: dict[str, ByLanguage] = _FORMS["held_out"]
BEFORE: ByLanguage = _FORMS["before"]
AFTER: ByLanguage = _FORMS["after"]
FOLLOW_UPS: dict[str, ByLanguage] = _FORMS["follow_up"]
HELD_OUT_FOLLOW_UPS: dict[str, ByLanguage] = _FORMS["held_out_follow_up"]
SYNONYMS: dict[str, list[list[str]]] = {
    language: [group.split("|") for group in groups] for language, groups in _FORMS["synonyms"].items()
}
OFF_TOPIC: dict[str, list[str]] = _FORMS["off_topic"]
SYSTEM_PROMPTS: list[str] = _FORMS["system"]["prompts"]
RULES: list[str] = _FORMS["system"]["rules"]

REFUSAL = {
    "en": "I don't know that. I can only answer questions about Radixway and LLM serving.",
    "zh": "我不知道。我只能回答关于 Radixway 和大模型推理服务的问题。",
}
