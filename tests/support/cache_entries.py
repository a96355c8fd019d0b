"""Entries for tests of stores."""

from itertools import count

import numpy as np

from radixway.semantics.cache import CacheEntry

_ids = count()


def unit(*numbers):
    vector = np.asarray(numbers, np.float32)
    return vector / np.linalg.norm(vector)


def entry(question="q", scope="s", vector=(1, 0, 0), **more):
    given = {
        "id": f"e{next(_ids)}",
        "scope": scope,
        "exact": question,
        "question": question,
        "vector": None if vector is None else unit(*vector),
        "answer": b"answer",
        "tenant": "t",
        "user": None,
        "model": "m",
        "created_at": 0.0,
        "expires_at": 100.0,
    }
    return CacheEntry(**(given | more))
