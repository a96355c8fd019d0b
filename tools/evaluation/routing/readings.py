"""What the gateway reads of a question: its vector and its domain."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radixway.semantics.encoders import TextEncoder
from radixway.semantics.encoders.base import Floats
from radixway.semantics.encoders.heads import DomainHead

_SAVE_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Readings:
    """Of several questions, in their order."""

    vectors: Floats
    """[questions, size]"""
    domains: Floats
    """[questions, labels]: probabilities."""
    labels: tuple[str, ...]


def read_questions(
    questions: Sequence[str],
    encoder: TextEncoder,
    head: DomainHead,
    cache: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Readings:
    """Each distinct question is read once, and none that `cache` (an .npz of this encoder and head) has."""
    maker = _maker(encoder, head)
    known = _load(cache, maker) if cache is not None else {}
    missing = [text for text in dict.fromkeys(questions) if _key(text) not in known]
    for done, text in enumerate(missing, start=1):
        known[_key(text)] = _read(text, encoder, head)
        progress(done, len(missing))
        if cache is not None and (done % _SAVE_EVERY == 0 or done == len(missing)):
            _save(cache, maker, known)
    rows = np.stack([known[_key(text)] for text in questions])
    return Readings(rows[:, : encoder.size], rows[:, encoder.size :], head.labels)


def _read(text: str, encoder: TextEncoder, head: DomainHead) -> Floats:
    encoding = encoder.encode([text])[0]
    reading = head.classify_domain(text, encoding)
    shares = [reading.distribution[label] for label in head.labels]
    return np.concatenate([encoding.vector, np.array(shares, np.float32)])


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _maker(encoder: TextEncoder, head: DomainHead) -> str:
    """Who made the readings: the encoder, and the head by what it says of one sentence."""
    probe = "How many people live in the old town?"
    return f"{encoder.id} {hashlib.sha256(_read(probe, encoder, head).tobytes()).hexdigest()}"


def _load(cache: Path, maker: str) -> dict[str, Floats]:
    if not cache.is_file():
        return {}
    with np.load(cache) as file:
        if str(file["maker"]) != maker:
            return {}
        return dict(zip(file["keys"].tolist(), file["rows"], strict=True))


def _save(cache: Path, maker: str, known: dict[str, Floats]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    written = cache.with_suffix(".new.npz")
    np.savez(written, maker=np.array(maker), keys=np.array(list(known)), rows=np.stack(list(known.values())))
    written.replace(cache)
