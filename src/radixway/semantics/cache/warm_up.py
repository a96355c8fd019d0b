"""Answers known from the start: from a file that people write, and from what the memory held at its end."""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from radixway.core.atomic_file import write_atomically
from radixway.core.config import ConfigError
from radixway.semantics.cache.store import ENTRY_FIELDS, CacheEntry


class KnownAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """A line of the file: `question` and `answer`, or the bodies themselves."""

    model: str = ""
    question: str | None = None
    answer: str | None = None
    system: str | None = None
    tenant: str = "default"
    user: str | None = None
    request: dict[str, Any] | None = None
    """A whole body of `/v1/chat/completions`."""
    response: dict[str, Any] | None = None

    def request_and_response(self) -> tuple[dict[str, Any], bytes]:
        """The request's body and the answer's. Raises ValueError."""
        request, response = self.request, self.response
        if request is None:
            if self.question is None:
                raise ValueError("give question and answer, or request and response")
            system = [{"role": "system", "content": self.system}] if self.system else []
            turn = {"role": "user", "content": self.question}
            request = {"model": self.model, "messages": [*system, turn]}
        if response is None:
            if self.answer is None:
                raise ValueError("the answer is missing")
            message = {"role": "assistant", "content": self.answer}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
            model = request.get("model")
            response = {
                "id": "",
                "object": "chat.completion",
                "created": 0,
                "model": model,
                "choices": [choice],
            }
        return request, json.dumps(response, ensure_ascii=False).encode()


_known = msgspec.json.Decoder(KnownAnswer)


def read_known_answers(path: Path) -> list[KnownAnswer]:
    """Read the lines of a file. Raises ConfigError naming the line at fault."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"semantic_cache.warm_up: cannot read {path}: {error}") from None
    known = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entry = _known.decode(line)
                entry.request_and_response()
            except (msgspec.DecodeError, ValueError) as error:
                raise ConfigError(f"{path}:{number}: {error}") from None
            known.append(entry)
    return known


class _SavedEntry(msgspec.Struct, array_like=True):
    """A `CacheEntry` in the file: its fields, in its order."""

    id: str
    scope: str
    exact: str
    question: str
    vector: bytes | None
    answer: bytes
    tenant: str
    user: str | None
    model: str
    created_at: float
    expires_at: float | None


_saved = msgspec.msgpack.Decoder(list[_SavedEntry])


def save_cache_file(entries: Iterator[CacheEntry], path: Path) -> None:
    """Write entries to a file that only its owner can read, all or nothing. Raises OSError."""
    rows = [[getattr(entry, name) for name in ENTRY_FIELDS] for entry in entries]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.msgpack.encode(rows, enc_hook=np.ndarray.tobytes))


def load_cache_file(path: Path) -> list[CacheEntry]:
    """Read what `save_cache_file` wrote; nothing where there is no file. Raises ConfigError."""
    try:
        rows = _saved.decode(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"semantic_cache.persist: {path} cannot be read: {error}") from None
    return [_read_entry(row) for row in rows]


def _read_entry(row: _SavedEntry) -> CacheEntry:
    values = msgspec.structs.asdict(row)
    if row.vector is not None:
        values["vector"] = np.frombuffer(row.vector, np.float32)
    if row.expires_at is None:  # as earlier versions wrote infinity
        values["expires_at"] = inf
    return CacheEntry(**values)
