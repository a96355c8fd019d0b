"""The table of words: what each means, as the encoder has it, and how rare it is in the permitted sets."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache_head.pairs import read_groups, read_rows
from radixway.semantics.cache.verifier.pair_features import WordVectors

SIZE = 48
"""Numbers a word has, of the 384 of its sentence vector: principal components."""
LEAST_TEXTS = 3
"""In which a word must occur, unless it is a piece of the encoder's vocabulary."""

_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_SETS = (
    ("routing/banking77", "text"), ("routing/clinc150", "text"), ("tools/metatool_single", "query"),
    ("routing/routellm_mmlu_correctness", "question"), ("domain/mmlu_pro_test", "question"),
)  # fmt: skip
_CHINESE_SETS = (("domain/zh_gaokao_bench", "question"), ("domain/zh_agieval", "question"))


@dataclass(slots=True)
class WordTable:
    """Arrays as they ship; Chinese characters stand among the words, with a rarity and no vector."""

    words: list[str]
    vectors: NDArray[np.int8]
    rarity: NDArray[np.float16]

    def loaded(self) -> WordVectors:
        """As the verifier reads it."""
        at = {word: row for row, word in enumerate(self.words)}
        return WordVectors(at, self.vectors, self.rarity.astype(np.float32))


def make_table(data: Path, pieces: Path, vector: Callable[[str], NDArray[np.float32]]) -> WordTable:
    """`pieces`: the encoder's tokenizer.json. `vector`: of a text, [384], unit length."""
    rarity = _rarity(_texts(data, _SETS, "en"), _WORD)
    vocabulary = json.loads(pieces.read_text(encoding="utf-8"))["model"]["vocab"]
    usual = {word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1}
    words = sorted(usual | {word for word in rarity if len(word) > 1})
    raw = np.stack([vector(word) for word in words])
    raw -= raw.mean(axis=0)
    _, _, components = np.linalg.svd(raw, full_matrices=False)
    small = raw @ components[:SIZE].T
    small /= np.abs(small).max(axis=1, keepdims=True)
    characters = _rarity(_texts(data, _CHINESE_SETS, "zh"), _HAN)
    vectors = np.concatenate([np.round(small * 127), np.zeros((len(characters), SIZE))]).astype(np.int8)
    values = [rarity.get(word, 1.0) for word in words] + list(characters.values())
    return WordTable(words + list(characters), vectors, np.array(values, np.float16))


def _texts(data: Path, sets: tuple[tuple[str, str], ...], language: str) -> Iterable[str]:
    for name, key in sets:
        for row in read_rows(data / f"{name}.jsonl.gz"):
            yield row[key]
    for group in read_groups(language):
        yield from group.same + group.near


def _rarity(texts: Iterable[str], unit: re.Pattern[str]) -> dict[str, float]:
    """Inverse document frequency over that of a word that occurs once: 0 in all texts, 1 in one."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        counts.update(set(unit.findall(text.lower()[:400])))
        total += 1
    return {
        word: min(1.0, math.log(total / count) / math.log(total))
        for word, count in counts.items()
        if count >= LEAST_TEXTS
    }
