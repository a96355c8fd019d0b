"""Logistic regression by L-BFGS in float32, over dense or sparse rows."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

Floats = NDArray[np.float32]


def regress(
    rows: Floats | sparse.csr_array,
    labels: NDArray[np.bool_],
    weights: Floats,
    *,
    strength: float,
    iterations: int,
) -> tuple[Floats, float]:
    """Weights and bias that minimise the weighted log loss + |weights|² / (2 · strength)."""
    turned = rows.T.tocsr() if sparse.issparse(rows) else rows.T
    signs = np.where(labels, 1, -1).astype(np.float32)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        learnt, bias = flat[:-1].astype(np.float32), flat[-1]
        margins = (rows @ learnt + bias) * signs
        pulls = -signs * weights * np.exp(-np.logaddexp(0, margins))
        penalty = float(learnt @ learnt) / (2 * strength)
        gradient = np.append(turned @ pulls + learnt / strength, pulls.sum())
        return float((weights * np.logaddexp(0, -margins)).sum()) + penalty, gradient.astype(np.float64)

    found = minimize(
        loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": iterations}
    )
    return found.x[:-1].astype(np.float32), float(found.x[-1])
