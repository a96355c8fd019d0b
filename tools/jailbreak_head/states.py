"""What the encoder makes of many texts, kept in a file: reading them takes longer than all the rest."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders import TextEncoder

_SAVE_EVERY = 2000


@dataclass(slots=True, frozen=True)
class Blocks:
    """See `TextEncoding.blocks`."""

    rows: NDArray[np.float16]
    tokens: NDArray[np.int32]
    spans: NDArray[np.int32]
    """[n, 2]: of which characters."""


def read_blocks(encoder: TextEncoder, texts: Sequence[str], cache: Path) -> dict[str, Blocks]:
    """Of each text. What `cache` has of this encoder is not read again; what it lacks is added to it."""
    known = _load(cache, encoder.id)
    missing = [text for text in dict.fromkeys(texts) if _key(text) not in known]
    for done, text in enumerate(missing, start=1):
        known[_key(text)] = _read(encoder, text)
        if done % _SAVE_EVERY == 0 or done == len(missing):
            _save(cache, encoder.id, known)
            print(f"read {done} of {len(missing)}", file=sys.stderr, flush=True)
    return {text: known[_key(text)] for text in texts}


def _read(encoder: TextEncoder, text: str) -> Blocks:
    encoding = encoder.encode([text])[0]
    ends = np.cumsum(encoding.block_tokens)
    begins = ends - encoding.block_tokens
    spans = (
        np.stack([encoding.offsets[begins, 0], encoding.offsets[ends - 1, 1]], 1)
        if len(ends)
        else np.zeros((0, 2))
    )
    return Blocks(encoding.blocks.astype(np.float16), encoding.block_tokens, spans.astype(np.int32))


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _load(cache: Path, encoder: str) -> dict[str, Blocks]:
    if not cache.is_file():
        return {}
    with np.load(cache) as file:
        if str(file["encoder"]) != encoder:
            return {}
        ends = np.cumsum(file["counts"])
        begins = ends - file["counts"]
        rows, tokens, spans = file["rows"], file["tokens"], file["spans"]
        return {
            key: Blocks(rows[begin:end], tokens[begin:end], spans[begin:end])
            for key, begin, end in zip(file["keys"].tolist(), begins, ends, strict=True)
        }


def _save(cache: Path, encoder: str, known: dict[str, Blocks]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    written = cache.with_suffix(".new.npz")
    every = list(known.values())
    np.savez(
        written,
        encoder=np.array(encoder),
        keys=np.array(list(known)),
        counts=np.array([len(each.tokens) for each in every]),
        rows=np.concatenate([each.rows for each in every if len(each.tokens)]),
        tokens=np.concatenate([each.tokens for each in every]),
        spans=np.concatenate([each.spans for each in every]),
    )
    written.replace(cache)
