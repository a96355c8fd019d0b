"""Small tokenizers of the kinds real models use, trained here on a mixed text, in model directories."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

MIXED_TEXT = """The quick brown fox jumps over the lazy dog. It's 3.14159, isn't it?\n\n    indented: x = y**2
前缀缓存让相同的开头只计算一次。路由器把请求送到已有前缀的工作进程。人工智能模型、分词器、字节。
Привет, мир! Καλημέρα κόσμε! こんにちは世界 안녕하세요 مرحبا بالعالم हिन्दी
Emoji 😀👩‍👩‍👧‍👦🇨🇳🏳️‍🌈 and ligatures ﬁ, combining é vs é, tabs\tand trailing spaces   \r\n
def prefill(tokens: list[int]) -> None: return None  # {"role": "user", "content": "<b>&amp;</b>"}
"""

QWEN_PATTERN = "|".join(
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def save(directory: Path, backend: Tokenizer, config: dict[str, Any], **files: Any) -> Path:
    """A model directory with this tokenizer; `files` are more JSON files by their stem."""
    directory.mkdir(parents=True, exist_ok=True)
    backend.save(str(directory / "tokenizer.json"))
    for name, content in {"tokenizer_config": config, **files}.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return directory


def byte_level_bpe(specials: list[str], vocab_size: int = 700) -> Tokenizer:
    """As Qwen's and Llama 3's: bytes as characters, split by a regular expression."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator([MIXED_TEXT], trainer)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return backend


def sentencepiece_bpe() -> Tokenizer:
    """As Llama 2's: `▁` for spaces, one in front, unknown characters as bytes."""
    specials = ["<unk>", "<s>", "</s>"]
    alphabet = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*specials, *(f"<0x{byte:02X}>" for byte in range(256))],
        limit_alphabet=60,
        show_progress=False,
    )
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    backend.train_from_iterator(MIXED_TEXT.split("\n"), alphabet)
    # Training marks the byte pieces special; in a real vocabulary they are plain entries.
    state = json.loads(backend.to_str())
    state["added_tokens"] = state["added_tokens"][:3]
    backend = Tokenizer.from_str(json.dumps(state))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return backend


def first_token(backend: Tokenizer, token: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, backend.token_to_id(token))]
    )


def make_model_dirs(root: Path) -> dict[str, Path]:
    """By family: `qwen`, `llama3` (adds its own first token), `llama2` (so too)."""
    qwen = byte_level_bpe(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    llama3 = byte_level_bpe(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>"])
    llama3.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), first_token(llama3, "<|begin_of_text|>")]
    )
    llama2 = sentencepiece_bpe()
    llama2.post_processor = first_token(llama2, "<s>")
    tool_call = {"content": "<tool_call>", "special": False, "normalized": False}
    return {
        "qwen": save(
            root / "qwen",
            qwen,
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "add_bos_token": False,
                "bos_token": None,
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "added_tokens_decoder": {str(qwen.get_vocab_size()): tool_call},
            },
            generation_config={"eos_token_id": [1, qwen.token_to_id("<|endoftext|>")]},
        ),
        "llama3": save(
            root / "llama3",
            llama3,
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|begin_of_text|>",
                "eos_token": "<|eot_id|>",
            },
        ),
        "llama2": save(
            root / "llama2",
            llama2,
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "add_bos_token": True,
                "add_eos_token": False,
                "bos_token": {"__type": "AddedToken", "content": "<s>", "normalized": False, "special": True},
                "eos_token": "</s>",
                "unk_token": "<unk>",
            },
        ),
    }
