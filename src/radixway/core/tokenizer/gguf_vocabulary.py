"""The tokenizer that a GGUF file holds in its metadata.

Two kinds of BPE: `gpt2`, of bytes, with merges, and `llama`, SentencePiece's, of characters, with scores.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from radixway.core.gguf_file import GgufError, GgufFile

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
"""Kinds in `tokenizer.ggml.token_type`: the one for what has no token, tokens that a decoder leaves out, and
others that are added.
"""

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

_SPACE = "▁"
"""What SentencePiece writes for a space."""

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
        if model == "llama":
            backend, add_bos = self._build_sentencepiece(), True
        elif model == "gpt2":
            kind = self._metadata.get("tokenizer.ggml.pre") or "default"
            backend, add_bos = self._build_byte_level(kind), kind == "llama-bpe"
        else:
            raise GgufError(
                f"{self._file.path}: tokenizer {model!r} is not supported; 'gpt2' and 'llama' are"
            )
        self._add_tokens(backend)
        ids = self._find_outer_ids(add_bos=add_bos)
        if ids or model == "gpt2":
            backend.post_processor = self._make_post_processor(ids)
        return backend

    def _build_byte_level(self, kind: Any) -> tokenizers.Tokenizer:
        pre_tokenizer = self._make_pre_tokenizer(kind)
        merges = [
            (left, right) for left, _, right in (m.partition(" ") for m in self._read_list("merges", str))
        ]
        backend = self._build_bpe(merges, ignore_merges=kind == "llama-bpe")
        backend.pre_tokenizer = pre_tokenizer
        if kind == "qwen2":
            backend.normalizer = normalizers.NFC()
        backend.decoder = decoders.ByteLevel()
        return backend

    def _build_sentencepiece(self) -> tokenizers.Tokenizer:
        unknown = self._tokens[self._kinds.index(_UNKNOWN)] if _UNKNOWN in self._kinds else None
        backend = self._build_bpe(self._derive_merges(), byte_fallback=True, fuse_unk=True, unk_token=unknown)
        spaces: list[normalizers.Normalizer] = [normalizers.Replace(" ", _SPACE)]
        parts: list[decoders.Decoder] = [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
        ]
        if self._metadata.get("tokenizer.ggml.add_space_prefix", True):
            spaces.insert(0, normalizers.Prepend(_SPACE))
            parts.append(decoders.Strip(" ", 1, 0))
        backend.normalizer = normalizers.Sequence(spaces)
        backend.decoder = decoders.Sequence(parts)
        return backend

    def _build_bpe(self, merges: list[tuple[str, str]], **options: Any) -> tokenizers.Tokenizer:
        vocabulary = {token: i for i, token in enumerate(self._tokens)}
        try:
            return tokenizers.Tokenizer(models.BPE(vocabulary, merges, **options))
        except Exception as error:  # noqa: BLE001 - the library raises nothing more precise
            raise GgufError(f"{self._file.path}: {error}") from None

    def _derive_merges(self) -> list[tuple[str, str]]:
        """Return the pairs that make each token, best score first: SentencePiece keeps scores, no merges."""
        scores = self._read_list("scores", float)
        if len(scores) != len(self._tokens):
            raise GgufError(
                f"{self._file.path} has {len(self._tokens)} tokens and a score for {len(scores)} of them"
            )
        ids = {token: i for i, token in enumerate(self._tokens)}
        merges = []
        for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
            token = self._tokens[i]
            pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
            known = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
            merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        return merges

    def _make_pre_tokenizer(self, kind: Any) -> pre_tokenizers.PreTokenizer:
        if kind not in _SPLITS:
            known = ", ".join(_SPLITS)
            raise GgufError(f"{self._file.path}: pre-tokenizer {kind!r} is not supported ({known} are)")
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in _SPLITS[kind]]
        return pre_tokenizers.Sequence(
            [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )

    def _find_outer_ids(self, *, add_bos: bool) -> dict[str, int]:
        """Return the ids before (`bos`) and after (`eos`) a text; `add_bos`: where the file does not say."""
        ids = {}
        for name, default in (("bos", add_bos), ("eos", False)):
            token_id = self._id_of(f"{name}_token_id")
            if self._metadata.get(f"tokenizer.ggml.add_{name}_token", default) and token_id is not None:
                ids[name] = token_id
        return ids

    def _make_post_processor(self, ids: Mapping[str, int]) -> processors.PostProcessor:
        if not ids:
            return processors.ByteLevel(trim_offsets=False)
        before, after = ([self._tokens[ids[name]]] if name in ids else [] for name in ("bos", "eos"))
        return processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", *after, *before, "$B:1", *after],
            special_tokens=[(self._tokens[token_id], token_id) for token_id in ids.values()],
        )

    def _add_tokens(self, backend: tokenizers.Tokenizer) -> None:
        added = {_CONTROL: True, _USER_DEFINED: False}
        tokens = [
            AddedToken(token, special=added[kind], normalized=False)
            for token, kind in zip(self._tokens, self._kinds, strict=True)
            if kind in added
        ]
        backend.add_tokens(tokens)

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
