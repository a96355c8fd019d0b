"""Texts in other than Latin letters, compared by their characters.

The shipped encoder knows English. On Chinese paraphrases (LCQMC) its cosine tells as much as a coin nearly
does (AUC 0.656); how many pairs of neighbouring characters two texts share tells more (0.785). That is still
little: at a cosine of 0.5, 27.7 % of LCQMC's different questions were given the same answer; at 0.94, 1.7 %.
"""

import zlib
from collections import Counter
from itertools import pairwise

import numpy as np

from radixway.semantics.cache.store import Vector
from radixway.semantics.cache.verifier.chinese_rules import strip_filler

SIZE = 384
"""Buckets; as many as the encoder's vectors have, so that stores need one column."""


def ngram_vector(text: str) -> Vector:
    """[384], unit length: hashed characters and pairs of characters, function words left out."""
    content = strip_filler(text)
    grams = Counter(content)
    grams.update(one + other for one, other in pairwise(content))
    vector = np.zeros(SIZE, np.float32)
    for gram, count in grams.items():
        hashed = zlib.crc32(gram.encode("utf-8", "replace"))
        vector[hashed % SIZE] += (1 if hashed >> 31 else -1) * count**0.5
    length = float(np.linalg.norm(vector))
    if not length:
        vector[0] = length = 1.0
    return vector / np.float32(length)
