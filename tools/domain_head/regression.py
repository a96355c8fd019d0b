"""Softmax regression over a dense and a sparse matrix at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

Floats = NDArray[np.float32]


@dataclass(slots=True, frozen=True)
class Softmax:
    """What was learnt: logits are dense @ states + sparse @ ngrams + bias."""

    states: Floats
    """[dense, columns]"""
    ngrams: Floats
    """[sparse, columns]; zero for what no row had."""
    bias: Floats
    """[columns]"""


def regress(
    dense: Floats,
    counted: sparse.csr_array,
    targets: NDArray[np.int64],
    weights: Floats,
    *,
    columns: int,
    strength: float,
    iterations: int,
) -> Softmax:
    """Minimise the weighted cross entropy + |weights|² / (2 · strength) by L-BFGS, in float32.

    `dense` is [rows, any number], none included; `targets` are columns of what is learnt.
    """
    rows, kinds = counted.shape
    used = np.flatnonzero(np.bincount(counted.indices, minlength=kinds))
    narrow = counted[:, used].tocsr()
    turned = narrow.T.tocsr()
    true = np.zeros((rows, columns), np.float32)
    true[np.arange(rows), targets] = 1
    total = float(weights.sum())
    split = dense.shape[1]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        table = flat.astype(np.float32).reshape(-1, columns)
        states, ngrams, bias = table[:split], table[split:-1], table[-1]
        logits = dense @ states + narrow @ ngrams + bias
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        norms = shares.sum(axis=1)
        entropy = float((weights * (np.log(norms) - (logits * true).sum(axis=1))).sum())
        surplus = (shares / norms[:, None] - true) * weights[:, None]
        penalised = table[:-1]
        gradient = np.concatenate([dense.T @ surplus, turned @ surplus, surplus.sum(axis=0)[None]])
        gradient[:-1] += penalised / strength
        size = float(np.square(penalised, dtype=np.float64).sum()) / (2 * strength)
        return (entropy + size) / total, gradient.ravel().astype(np.float64) / total

    start = np.zeros((split + len(used) + 1) * columns)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    table = found.x.astype(np.float32).reshape(-1, columns)
    ngrams = np.zeros((kinds, columns), np.float32)
    ngrams[used] = table[split:-1]
    return Softmax(table[:split], ngrams, table[-1])
