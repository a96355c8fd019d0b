"""The tokenizer that a GGUF file holds in its metadata: byte-level BPE, as GPT-2 began it."""

from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from radixway.core.gguf_file import GgufError, GgufFile

_CONTROL, _USER_DEFINED = 3, 4
"""Kinds in `tokenizer.ggml.token_type`: tokens that a decoder leaves out, and others that are added."""

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPLITS = {
    "llama-bpe": [rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"],
    "qwen2": [rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"],
    "smollm": [r"\p{N}", _GPT2],
    "gpt-2": [_GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}
"""By `tokenizer.ggml.pre`: how a text is cut before merges, one expression after the other."""
_END_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>")
"""Control tokens that end an answer in any model that has them; a file names one of them only."""

_NAMED_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",
    "mask_token": "mask_token_id",
}
_SAMPLING_KEYS = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}


class GgufVocabulary:
    """What `file` says about text: its tokens, its special ones, its chat templates. Raises GgufError."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._metadata = file.metadata
        self._tokens: list[str] = self._read_list("tokens", str)
        kinds = self._metadata.get("tokenizer.ggml.token_type") or [1] * len(self._tokens)
        self._kinds: list[int] = kinds if isinstance(kinds, list) else []
        if len(self._kinds) != len(self._tokens):
            raise GgufError(
                f"{file.path} has {len(self._tokens)} tokens and a type for {len(self._kinds)} of them"
            )

    @property
    def special_tokens(self) -> dict[str, str]:
        """Named tokens (`bos_token`, `eos_token`, …) and their texts."""
        return {
            name: self._tokens[i] for name, key in _NAMED_IDS.items() if (i := self._id_of(key)) is not None
        }

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Ids that end an answer: those the file names, and control tokens that every model ends with."""
        named = {self._id_of(f"{name}_token_id") for name in ("eos", "eot", "eom")} - {None}
        ends = set(_END_TOKENS)
        control = {i for i, kind in enumerate(self._kinds) if kind == _CONTROL and self._tokens[i] in ends}
        return frozenset(control.union(i for i in named if i is not None))

    @property
    def chat_templates(self) -> dict[str, str]:
        """Jinja sources by name; the model's usual one is `default`."""
        key = "tokenizer.chat_template"
        return {
            name.removeprefix(key).removeprefix(".") or "default": source
            for name, source in self._metadata.items()
            if (name == key or name.startswith(f"{key}.")) and isinstance(source, str)
        }

    def build_backend(self) -> tokenizers.Tokenizer:
        """Build the tokenizer. Raises GgufError for a kind that is not supported, by its name."""
        model = self._metadata.get("tokenizer.ggml.model")
        if model != "gpt2":
            raise GgufError(f"{self._file.path}: tokenizer {model!r} is not supported; 'gpt2' (BPE) is")
        kind = self._metadata.get("tokenizer.ggml.pre") or "default"
        pre_tokenizer = self._make_pre_tokenizer(kind)
        vocabulary = {token: i for i, token in enumerate(self._tokens)}
        try:
            bpe = models.BPE(vocabulary, self._read_merges(), ignore_merges=kind == "llama-bpe")
        except Exception as error:  # noqa: BLE001 - the library raises nothing more precise
            raise GgufError(f"{self._file.path}: {error}") from None
        backend = tokenizers.Tokenizer(bpe)
        backend.pre_tokenizer = pre_tokenizer
        if kind == "qwen2":
            backend.normalizer = normalizers.NFC()
        backend.decoder = decoders.ByteLevel()
        self._add_tokens(backend)
        backend.post_processor = self._make_post_processor(add_bos=kind == "llama-bpe")
        return backend

    def _make_pre_tokenizer(self, kind: Any) -> pre_tokenizers.PreTokenizer:
        if kind not in _SPLITS:
            known = ", ".join(_SPLITS)
            raise GgufError(f"{self._file.path}: pre-tokenizer {kind!r} is not supported ({known} are)")
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in _SPLITS[kind]]
        return pre_tokenizers.Sequence(
            [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )

    def _make_post_processor(self, *, add_bos: bool) -> processors.PostProcessor:
        """Return what puts first and last token around a text; `add_bos`: where the file does not say."""
        flags = {"bos": add_bos, "eos": False}
        ids = {}
        for name, default in flags.items():
            given = self._metadata.get(f"tokenizer.ggml.add_{name}_token", default)
            token_id = self._id_of(f"{name}_token_id")
            if given and token_id is not None:
                ids[name] = (self._tokens[token_id], token_id)
        if not ids:
            return processors.ByteLevel(trim_offsets=False)
        before, after = ([ids[name][0]] if name in ids else [] for name in flags)
        return processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", *after, *before, "$B:1", *after],
            special_tokens=list(ids.values()),
        )

    def _add_tokens(self, backend: tokenizers.Tokenizer) -> None:
        added = {_CONTROL: True, _USER_DEFINED: False}
        tokens = [
            AddedToken(token, special=added[kind], normalized=False)
            for token, kind in zip(self._tokens, self._kinds, strict=True)
            if kind in added
        ]
        backend.add_tokens(tokens)

    def _read_merges(self) -> list[tuple[str, str]]:
        merges = []
        for merge in self._read_list("merges", str):
            left, _, right = merge.partition(" ")
            merges.append((left, right))
        return merges

    def _read_list(self, name: str, kind: type) -> list[Any]:
        values = self._metadata.get(f"tokenizer.ggml.{name}")
        if not isinstance(values, list) or (values and not isinstance(values[0], kind)):
            raise GgufError(f"{self._file.path} has no tokenizer.ggml.{name}")
        return values

    def _id_of(self, key: str) -> int | None:
        token_id = self._metadata.get(f"tokenizer.ggml.{key}")
        return token_id if isinstance(token_id, int) and token_id < len(self._tokens) else None


def read_sampling_values(file: GgufFile) -> dict[str, Any]:
    """Return the sampling parameters that `file` recommends, by generation_config.json's names."""
    keys = {name: f"general.sampling.{key}" for name, key in _SAMPLING_KEYS.items()}
    return {name: file.metadata[key] for name, key in keys.items() if key in file.metadata}
