"""Sentence vectors of many texts, kept in a file: embedding them takes longer than all the rest."""

import hashlib
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.encoders import Encoder

Vectors = dict[str, NDArray[np.float32]]

_SAVE_EVERY = 1000


def read_vectors(encoder: Encoder, texts: list[str], cache: Path) -> Vectors:
    """By text: [size]. What `cache` has is not embedded again; what it lacks is added to it."""
    known = _load(cache)
    missing = [text for text in dict.fromkeys(texts) if _key(text) not in known]
    for done, text in enumerate(missing, start=1):
        known[_key(text)] = encoder.encode([text])[0].vector
        if done % _SAVE_EVERY == 0 or done == len(missing):
            _save(cache, known)
            print(f"embedded {done} of {len(missing)}", file=sys.stderr, flush=True)
    return {text: known[_key(text)] for text in texts}


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _load(cache: Path) -> Vectors:
    if not cache.is_file():
        return {}
    with np.load(cache) as file:
        return dict(zip(file["keys"].tolist(), file["vectors"], strict=True))


def _save(cache: Path, known: Vectors) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    written = cache.with_suffix(".new.npz")
    np.savez(written, keys=np.array(list(known)), vectors=np.stack(list(known.values())))
    written.replace(cache)
