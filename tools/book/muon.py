"""Muon (Jordan et al. 2024): momentum whose update is made orthogonal, for the matrices inside a network.

Where a small model has to learn a thousand rare things by heart it needs far fewer steps than Adam.
"""

from collections.abc import Iterable

import torch


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised by five Newton-Schulz steps, one shape at a time."""

    def __init__(
        self, matrices: Iterable[torch.Tensor], lr: float, momentum: float = 0.95, decay: float = 0.02
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is None:  # the upper layers rest while only the lower ones are trained
                    continue
                by_shape.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in by_shape.items():
                updates = []
                for matrix in matrices:
                    state = self.state[matrix]
                    if not state:
                        state["velocity"] = torch.zeros_like(matrix)
                    velocity = state["velocity"].lerp_(matrix.grad, 1 - group["momentum"])
                    updates.append(matrix.grad.lerp(velocity, group["momentum"]))
                size = max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, update in zip(matrices, orthogonal(torch.stack(updates)), strict=True):
                    matrix.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-group["lr"] * size)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """The nearest orthogonal matrices, roughly: singular values end up between 0.7 and 1.2."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x
