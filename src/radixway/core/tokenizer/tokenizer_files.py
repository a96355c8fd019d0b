"""Reads what a Hugging Face model directory says about its tokenizer in up to six files, read into one
place.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken


class TokenizerError(Exception):
    """A tokenizer that cannot be loaded; the text names the file and what is wrong with it."""


_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(slots=True)
class TokenizerFiles:
    """The tokenizer's backend and what the other files add to it."""

    backend: tokenizers.Tokenizer
    special_tokens: dict[str, str]
    """`bos_token`, `eos_token`, … as the directory names them."""
    eos_token_ids: frozenset[int]
    chat_templates: dict[str, str] = field(default_factory=dict)
    """By name; a model's only template is `default`."""


def read_tokenizer_files(directory: Path) -> TokenizerFiles:
    """Read `directory` as `transformers` 5 does. Raises TokenizerError when it holds no usable tokenizer.

    Whether a text gets a first or last token (`add_special_tokens`) is what tokenizer.json says;
    `add_bos_token` in tokenizer_config.json is for tokenizers without that file.
    """
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
    return TokenizerFiles(
        backend=backend,
        special_tokens=special_tokens,
        eos_token_ids=_eos_token_ids(directory, backend, special_tokens),
        chat_templates=_chat_templates(directory, config),
    )


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
