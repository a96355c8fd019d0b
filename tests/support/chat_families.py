"""Model families: a true chat template each, on a small tokenizer that has the family's special tokens."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import radixway.bundled
from radixway.core.tokenizer import Tokenizer
from support.small_tokenizers import byte_level_bpe

_TEMPLATES = Path(__file__).parent.parent / "data" / "chat_templates"
_HEADERS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
_GLM = ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>"]
_DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"]
_DEEPSEEK_CALLS = [
    f"<｜tool▁{part}▁{side}｜>"
    for part in ("calls", "call", "outputs", "output")
    for side in ("begin", "end")
]
_HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"]
_MISTRAL = ["<s>", "</s>"] + [
    f"[{side}{name}]"
    for name in ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT")
    for side in ("", "/")
]


@dataclass(frozen=True, slots=True)
class Family:
    """How a family's models end an answer and a tool call."""

    specials: tuple[str, ...]
    stop: str
    call_stop: str
    other_stops: tuple[str, ...] = ()
    opened: str = ""
    """What a model that does not think writes before its answer."""


def _chatml() -> Family:
    return Family(
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), "<|im_end|>", "<|im_end|>", ("<|endoftext|>",)
    )


def _mistral() -> Family:
    return Family((*_MISTRAL, "[TOOL_CALLS]", "[TOOL_CONTENT]", "[CALL_ID]", "[ARGS]"), "</s>", "</s>")


FAMILIES = {
    "qwen2_5": _chatml(),
    "qwen3": _chatml(),
    "qwen3_5_think": _chatml(),
    "llama3": Family(tuple(_HEADERS), "<|eot_id|>", "<|eot_id|>"),
    "glm4moe": Family(
        tuple(_GLM), "<|user|>", "<|observation|>", ("<|endoftext|>",), opened="\n<think></think>\n"
    ),
    "deepseekv3": Family((*_DEEPSEEK, *_DEEPSEEK_CALLS, "<｜tool▁sep｜>"), _DEEPSEEK[1], _DEEPSEEK[1]),
    "gptoss": Family(tuple(_HARMONY), "<|return|>", "<|call|>", opened="<|channel|>final<|message|>"),
    "phi3": Family(
        ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"), "<|end|>", "<|end|>"
    ),
    "mistral_v3_tekken": _mistral(),
    "mistral_v13_tekken": _mistral(),
    "bundled": _chatml(),
}


@cache
def tokenizer_of(name: str) -> Tokenizer:
    """The family's tokenizer; `bundled` is the real one of the model that ships."""
    if name == "bundled":
        return Tokenizer.load(Path(radixway.bundled.__file__).parent / "guide")
    family = FAMILIES[name]
    backend = byte_level_bpe(list(family.specials))
    stops = {family.stop, family.call_stop, *family.other_stops}
    return Tokenizer(
        backend,
        special_tokens={"bos_token": family.specials[0], "eos_token": family.stop},
        eos_token_ids=frozenset(backend.token_to_id(stop) for stop in stops),
        chat_templates={"default": (_TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")},
    )
