"""What the encoder makes of many texts, kept in a file: reading them takes longer than all the rest."""

import hashlib
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders import TextEncoder
from radixway.semantics.encoders.heads.domain_head import pooled_states

States = dict[str, NDArray[np.float16]]
"""By text: [5 · size], see `radixway.semantics.encoders.heads.domain_head.pooled_states`."""

_SAVE_EVERY = 10_000


def read_states(encoder: TextEncoder, texts: list[str], cache: Path) -> States:
    """Of each text. What `cache` has of this encoder is not read again; what it lacks is added to it."""
    known = _load(cache, encoder.id)
    missing = [text for text in dict.fromkeys(texts) if _key(text) not in known]
    for done, text in enumerate(missing, start=1):
        known[_key(text)] = pooled_states(encoder.encode([text])[0]).astype(np.float16)
        if done % _SAVE_EVERY == 0 or done == len(missing):
            _save(cache, encoder.id, known)
            print(f"read {done} of {len(missing)}", file=sys.stderr, flush=True)
    return {text: known[_key(text)] for text in texts}


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _load(cache: Path, encoder: str) -> States:
    if not cache.is_file():
        return {}
    with np.load(cache) as file:
        if str(file["encoder"]) != encoder:
            return {}
        return dict(zip(file["keys"].tolist(), file["states"], strict=True))


def _save(cache: Path, encoder: str, known: States) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    written = cache.with_suffix(".new.npz")
    np.savez(
        written, encoder=np.array(encoder), keys=np.array(list(known)), states=np.stack(list(known.values()))
    )
    written.replace(cache)
