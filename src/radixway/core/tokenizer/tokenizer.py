"""A model's tokenizer: text to token ids and back, and its chat template."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from radixway.core.gguf_file import GgufError, GgufFile
from radixway.core.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.core.tokenizer.gguf_vocabulary import GgufVocabulary, read_sampling_values

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenBytes(dict[int, bytes]):
    """Token id → the bytes it adds to a text already begun, its space included; none for an unknown id."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        super().__init__()
        self._backend = backend
        kinds = _decoder_kinds(backend)
        self._byte_level = kinds == ["ByteLevel"]
        self._spaced = "ByteFallback" in kinds or kinds == ["Metaspace"]
        self._byte_fallback = "ByteFallback" in kinds
        self.strips_first_space = kinds == ["Metaspace"] or "Strip" in kinds
        """Does a whole text lose the space that its first token carries?"""

    def __missing__(self, token_id: int) -> bytes:
        piece = self[token_id] = self._bytes_of(token_id)
        return piece

    def _bytes_of(self, token_id: int) -> bytes:
        try:
            piece = self._backend.id_to_token(token_id)
        except OverflowError:  # not an unsigned 32-bit number
            return b""
        if piece is None:
            return b""
        if self._byte_level:
            try:
                return bytes(_BYTE_OF_CHARACTER[character] for character in piece)
            except KeyError:  # an added token is written as it is
                return piece.encode()
        if self._byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes([int(byte[1], 16)])
        if self._spaced:
            return piece.replace("▁", " ").encode()
        before = self._backend.decode([token_id], skip_special_tokens=False)
        both = self._backend.decode([token_id, token_id], skip_special_tokens=False)
        return both.removeprefix(before).encode()


def _decoder_kinds(backend: tokenizers.Tokenizer) -> list[str]:
    """Names of the decoder's steps, e.g. ["Replace", "ByteFallback", "Fuse", "Strip"]."""
    if backend.decoder is None:
        return []
    # A decoder has no public description of its own; an empty tokenizer around it does.
    shell = tokenizers.Tokenizer(tokenizers.models.BPE())
    shell.decoder = backend.decoder
    state = json.loads(shell.to_str())["decoder"]
    return [step["type"] for step in state.get("decoders", [state])]


def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()


class TokenizerError(Exception):
    """A tokenizer that cannot be loaded; the text names the file and what is wrong with it."""


_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{path} must hold a JSON object")
    return value


def _token_text(token: Any) -> str | None:
    """A special token is written as its text or as `{"content": text, …}`."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _added_token(token: Any, *, special: bool) -> AddedToken | None:
    text = _token_text(token)
    if text is None:
        return None
    flags = token if isinstance(token, dict) else {"normalized": False}
    names = ("lstrip", "rstrip", "normalized", "single_word")
    options = {name: bool(flags[name]) for name in names if name in flags}
    return AddedToken(text, special=special or bool(flags.get("special")), **options)


def _add_missing_tokens(
    backend: tokenizers.Tokenizer, named: dict[str, Any], special_tokens: dict[str, str]
) -> None:
    """Add tokens that only the configuration files list, and mark the named ones special."""
    listed = named.get("added_tokens_decoder") or {}
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    for _, token in sorted(listed.items(), key=lambda item: int(item[0])):
        added = _added_token(token, special=False)
        if added is not None and added.content not in known:
            backend.add_tokens([added])
    extra = named.get("extra_special_tokens") or named.get("additional_special_tokens") or []
    if isinstance(extra, dict):
        extra = list(extra.values())
    wanted = [named[name] for name in special_tokens] + list(extra)
    backend.add_special_tokens([added for token in wanted if (added := _added_token(token, special=True))])


def _eos_token_ids(
    directory: Path, backend: tokenizers.Tokenizer, special_tokens: dict[str, str]
) -> frozenset[int]:
    ids = set()
    if (eos := special_tokens.get("eos_token")) and (token_id := backend.token_to_id(eos)) is not None:
        ids.add(token_id)
    for name in ("generation_config.json", "config.json"):
        value = _read_json(directory / name).get("eos_token_id")
        ids.update(i for i in (value if isinstance(value, list) else [value]) if isinstance(i, int))
    return frozenset(ids)


_SAMPLING_RANGES = {
    "temperature": (0, 100),
    "top_p": (1e-6, 1),
    "top_k": (1, 2**31 - 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 100),
    "max_new_tokens": (1, 2**31 - 1),
}


def read_sampling_defaults(path: Path) -> dict[str, Any]:
    """Return the sampling parameters that a model's authors recommend, in its generation_config.json or
    in the metadata of the GGUF file `path`.

    What is no number, or one that engines refuse, is left out.
    """
    try:
        if path.is_file():
            config = read_sampling_values(GgufFile.read(path))
        else:
            config = _read_json(path / "generation_config.json")
    except (OSError, TokenizerError, GgufError):
        return {}
    defaults = {}
    for name, (least, most) in _SAMPLING_RANGES.items():
        value = config.get(name)
        types = (int,) if name in ("top_k", "max_new_tokens") else (int, float)
        if isinstance(value, types) and not isinstance(value, bool) and least <= value <= most:
            defaults[name] = value
    return defaults


def _chat_templates(directory: Path, config: dict[str, Any]) -> dict[str, str]:
    """The newest way to store one wins: chat_template.jinja, chat_template.json, tokenizer_config.json."""
    templates: dict[str, str] = {}
    if (path := directory / "chat_template.jinja").is_file():
        templates["default"] = path.read_text(encoding="utf-8")
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        templates[path.stem] = path.read_text(encoding="utf-8")
    if templates:
        return templates
    stored = _read_json(directory / "chat_template.json").get("chat_template", config.get("chat_template"))
    if isinstance(stored, str):
        return {"default": stored}
    if isinstance(stored, list):
        return {entry["name"]: entry["template"] for entry in stored}
    return dict(stored) if isinstance(stored, dict) else {}


class Tokenizer:
    """Encodes and decodes as `transformers` would for the same directory; safe to use from several threads.

    Made by `Tokenizer.load(directory)`, or from a `tokenizers` backend and what is known of it. The backend
    has all its added tokens by then: `size`, `longest_token` and `special_ids` are read once.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: Mapping[str, str] | None = None,
        eos_token_ids: frozenset[int] = frozenset(),
        chat_templates: Mapping[str, str] | None = None,
        sampling_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.backend = backend
        self.sampling_defaults = dict(sampling_defaults or {})
        """See `read_sampling_defaults`."""
        self.special_tokens = dict(special_tokens or {})
        self.eos_token_ids = eos_token_ids
        """Ids that end an answer, from the tokenizer, generation_config.json and config.json together."""
        self.special_ids = frozenset(
            token_id for token_id, token in backend.get_added_tokens_decoder().items() if token.special
        )
        """Ids that `skip_special_tokens` leaves out of decoded text."""
        vocabulary = backend.get_vocab(with_added_tokens=True)  # a copy each time: seconds, token by token
        self.size = max(vocabulary.values(), default=-1) + 1
        """One more than the largest id that `encode` can give."""
        self.longest_token = max(map(len, vocabulary), default=0)
        """Most characters of a text that one token can stand for."""
        self.token_bytes = TokenBytes(backend)
        """Token id → the bytes it adds to a text; see `TokenBytes`."""
        self.chat_templates = {
            name: ChatTemplate(source, self.special_tokens) for name, source in (chat_templates or {}).items()
        }

    @classmethod
    def load(cls, directory: str | Path) -> "Tokenizer":
        """Read a model directory as `transformers` 5 does, or a GGUF file.

        Whether a text gets a first or last token (`add_special_tokens`) is what tokenizer.json says;
        `add_bos_token` in tokenizer_config.json is for tokenizers without that file. Raises TokenizerError
        or TemplateError.
        """
        directory = Path(directory)
        if directory.is_file():
            return cls._load_gguf(directory)
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise TokenizerError(f"no tokenizer.json in {directory}; save_pretrained() writes one")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more precise
            raise TokenizerError(f"{path} is not a tokenizer: {error}") from error
        config = _read_json(directory / "tokenizer_config.json")
        named = config
        if "added_tokens_decoder" not in config:  # an older directory
            named = {**config, **_read_json(directory / "special_tokens_map.json")}
        special_tokens = {name: text for name in _NAMED_TOKENS if (text := _token_text(named.get(name)))}

        backend.no_truncation()
        backend.no_padding()
        _add_missing_tokens(backend, named, special_tokens)
        return cls(
            backend,
            special_tokens=special_tokens,
            eos_token_ids=_eos_token_ids(directory, backend, special_tokens),
            chat_templates=_chat_templates(directory, config),
            sampling_defaults=read_sampling_defaults(directory),
        )

    @classmethod
    def _load_gguf(cls, path: Path) -> "Tokenizer":
        try:
            file = GgufFile.read(path)
            vocabulary = GgufVocabulary(file)
            backend = vocabulary.build_backend()
        except (GgufError, OSError) as error:
            raise TokenizerError(str(error)) from None
        return cls(
            backend,
            special_tokens=vocabulary.special_tokens,
            eos_token_ids=vocabulary.eos_token_ids,
            chat_templates=vocabulary.chat_templates,
            sampling_defaults=read_sampling_defaults(path),
        )

    def token_id(self, name: str) -> int | None:
        """Return the id of the special token `name` (`eos_token`, …), or None where the model has none."""
        text = self.special_tokens.get(name)
        return None if text is None else self.backend.token_to_id(text)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`; special tokens written in it count as such. Blocks some 0.6 ms per KB.

        `add_special_tokens` puts what the model expects around a text (a Llama's beginning-of-text, say); a
        chat prompt has that already. Raises ValueError for text that is not valid Unicode (lone surrogates),
        and where the library breaks.
        """
        try:
            # The batch call, unlike encode(), lets other threads run meanwhile.
            batch = self.backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        except TypeError as error:
            raise ValueError("the text is not valid Unicode") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the library's, which no module exports
                raise
            raise ValueError(f"the tokenizer cannot cope with this text: {error}") from error
        ids: list[int] = batch[0].ids
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of whole `token_ids`. Raises ValueError for an id that cannot be one."""
        try:
            # As in `encode`: other threads run meanwhile.
            texts: list[str] = self.backend.decode_batch([token_ids], skip_special_tokens=skip_special_tokens)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"not token ids: {error}") from error
        return texts[0]

    def piece(self, token_id: int) -> str:
        """Return the token `token_id` as text; bytes that are no character by themselves show as U+FFFD."""
        return self.token_bytes[token_id].decode("utf-8", "replace")

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The chat prompt for `messages`, see `ChatTemplate.render`. Raises TemplateError."""
        templates = self.chat_templates
        template = (templates.get("tool_use") if tools else None) or templates.get("default")
        if template is None:
            raise TemplateError("this model has no chat template; use completions with a plain prompt")
        return template.render(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            arguments=arguments,
        )
