"""The tokenizers of the models that workers serve: given by the operator, or lying where a worker says.

They are loaded in threads of their own, those given at once, others when first needed; until then, and where
that fails, prompts are read otherwise. The packages that it takes are an extra, `radixway[tokenizers]`.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.core.config import ConfigError, RoutingConfig
from radixway.routing.worker import Worker

if TYPE_CHECKING:
    from radixway.core.tokenizer import PartialEncoding, PiecewiseEncoder, Tokenizer
    from radixway.routing.prompt_bodies import PromptBody


log = logging.getLogger(__name__)

_ENTRY_BYTES = 250
"""Memory of an entry besides its tokens."""


class TokenCache:
    """Token ids (little-endian uint32) by digest of what they were made from, least recently used out first.

    For one thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> bytes | None:
        """Return the ids cached under `key`, None if they are not."""
        packed = self._entries.get(key)
        if packed is not None:
            self._entries.move_to_end(key)
        return packed

    def __setitem__(self, key: bytes, packed: bytes) -> None:
        """Keep ids; older ones may have to go."""
        earlier = self._entries.pop(key, None)
        if earlier is not None:
            self.size_bytes -= len(earlier) + _ENTRY_BYTES
        self._entries[key] = packed
        self.size_bytes += len(packed) + _ENTRY_BYTES
        while self.size_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.size_bytes -= len(oldest) + _ENTRY_BYTES

    def clear_tokens(self) -> int:
        """Forget all; how many entries there were."""
        count = len(self._entries)
        self._entries.clear()
        self.size_bytes = 0
        return count

    def check(self) -> None:
        """Recompute the size. Raises AssertionError with the difference."""
        size = sum(len(packed) + _ENTRY_BYTES for packed in self._entries.values())
        assert size == self.size_bytes, f"{size} bytes are cached, not {self.size_bytes}"
        assert size <= self._max_bytes, "the cache exceeds its limit"


_HUB_FILES = ("*token*", "*.jinja", "config.json", "generation_config.json", "chat_template.json")


class PromptTokenizer:
    """Tokenizes a model's bodies to the ids that an engine with the same files would make."""

    def __init__(self, tokenizer: Tokenizer, cache: TokenCache) -> None:
        from radixway.core.tokenizer import PiecewiseEncoder

        self.tokenizer = tokenizer
        self.encoder: PiecewiseEncoder = PiecewiseEncoder(tokenizer, cache)
        templates = tokenizer.chat_templates.values()
        self.timeless = not any("strftime_now" in template.source for template in templates)
        """The same body always makes the same prompt."""

    def start_encoding(self, body: PromptBody) -> PartialEncoding:
        """The prompt's text, as far as tokenized. Raises ValueError for a body that makes none."""
        text, add_special_tokens = body.render_prompt(self.tokenizer)
        return self.encoder.lookup_pieces(text, add_special_tokens=add_special_tokens)


class TokenizerRegistry:
    """Finds the tokenizer for a request."""

    def __init__(self, config: RoutingConfig) -> None:
        """Raises ConfigError for a directory that was given and holds no tokenizer."""
        self._given = {model: _normalize_source(model, source) for model, source in config.tokenizers.items()}
        self.cache = TokenCache(config.tokenize.cache_mib << 20)
        self._loaded: dict[str, PromptTokenizer | None] = {}
        """By source; None while loading or if unavailable."""
        self._loading: list[threading.Thread] = []
        self._excused = False
        for source in self._given.values():
            self._load_in_background(source)

    def find_tokenizer(self, model: str | None, candidates: Sequence[Worker]) -> PromptTokenizer | None:
        """The tokenizer that all `candidates` would use for `model`; None if it is unknown or not loaded yet.

        A model not named is whatever a candidate serves first.
        """
        found: PromptTokenizer | None = None
        for worker in candidates:
            source = self._source_of(model, worker) if self._given else worker.info.tokenizer_path
            tokenizer = self._get_or_load(source) if source is not None else None
            if model is not None:
                if tokenizer is not None:
                    return tokenizer
            elif tokenizer is None or (found is not None and tokenizer is not found):
                return None
            else:
                found = tokenizer
        return found

    def preload_tokenizer(self, source: str) -> str:
        """Load the tokenizer at a directory or hub id, whoever's it is; returns what `at` knows it by.

        Raises ConfigError for a directory that holds none.
        """
        checked = _normalize_source("*", source)
        self._given["*"] = checked
        self._load_in_background(checked)
        return checked

    def get_preloaded(self, source: str) -> PromptTokenizer | None:
        """Return the tokenizer preloaded from `source`; None if it is not loaded yet, or could not be."""
        return self._loaded.get(source)

    @property
    def is_loading(self) -> bool:
        """A tokenizer is being loaded."""
        return any(thread.is_alive() for thread in self._loading)

    def wait_loaded(self) -> None:
        """Block until all tokenizers requested so far are loaded."""
        for thread in self._loading:
            thread.join()

    def _source_of(self, model: str | None, worker: Worker) -> str | None:
        name = model or (worker.models[0] if worker.models else None)
        if self._given and name is not None:
            given = self._given.get(name) or self._given.get(worker.info.adapters.get(name, ""))
            if given is not None:
                return given
        return worker.info.tokenizer_path

    def _get_or_load(self, source: str) -> PromptTokenizer | None:
        try:
            return self._loaded[source]
        except KeyError:
            self._load_in_background(source)
            return None

    def _load_in_background(self, source: str) -> None:
        if source in self._loaded:
            return
        self._loaded[source] = None
        thread = threading.Thread(
            target=self._load_tokenizer, args=(source,), name="radixway-tokenizer", daemon=True
        )
        self._loading = [other for other in self._loading if other.is_alive()]
        self._loading.append(thread)
        thread.start()

    def _load_tokenizer(self, source: str) -> None:
        if source not in self._given.values() and not _holds_tokenizer(Path(source)):
            return  # a worker elsewhere, or one that names a hub id
        try:
            from radixway.core.tokenizer import TemplateError, Tokenizer, TokenizerError
        except ImportError as error:
            if not self._excused:
                self._excused = True
                log.warning(
                    "prompts are matched as text only: %s is missing; install radixway[tokenizers]",
                    error.name,
                )
            return
        try:
            self._loaded[source] = PromptTokenizer(Tokenizer.load(_download_directory(source)), self.cache)
        except (TokenizerError, TemplateError, OSError, ValueError, ImportError) as error:
            log.warning("prompts are not tokenized by %s: %s", source, error)


def _normalize_source(model: str, source: str) -> str:
    """Return a directory as absolute path, a hub id unchanged."""
    path = Path(source).expanduser()
    if path.is_dir() or path.is_absolute() or source.startswith("."):
        if not _holds_tokenizer(path.absolute()):
            raise ConfigError(f"routing.tokenizers.{model}: there is no tokenizer.json in {path}")
        return str(path.absolute())
    return source


def _holds_tokenizer(directory: Path) -> bool:
    """Is there a tokenizer in `directory`, or is it a GGUF file, which has one inside?"""
    if not directory.is_absolute():
        return False
    return (directory / "tokenizer.json").is_file() or (directory.suffix == ".gguf" and directory.is_file())


def _download_directory(source: str) -> Path:
    if Path(source).is_absolute():
        return Path(source)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(source, allow_patterns=list(_HUB_FILES)))
