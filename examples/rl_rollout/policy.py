"""The policy in training: log-probabilities of sampled tokens, and GRPO's clipped update of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from statistics import mean, pstdev

import safetensors.torch
import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy

from rollout import Rollout


@dataclass(slots=True)
class Update:
    """What one update saw."""

    gap: float
    """Of tokens that these very weights sampled, the largest |log-probability here − as sampled|; before the
    update. Nothing but rounding if the tokens are exact; NaN if there are none."""
    kl: float
    """How far the policy has moved from the first one, in nats per token; before the update."""
    clipped: float
    """The share of tokens whose ratio lay outside of the clip range, in the last pass."""


class Policy:
    """A causal language model in float32, and its optimizer."""

    def __init__(
        self, model: str, *, learning_rate: float, clip: float = 0.2, kl_weight: float = 0.02
    ) -> None:
        self.model = _load(model)
        self.first = _load(model).requires_grad_(False)
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self._clip, self._kl_weight = clip, kl_weight

    def weights(self) -> bytes:
        """All weights as a safetensors file. The head is the embedding, and is left out."""
        state = self.model.state_dict()
        state.pop("lm_head.weight", None)
        return safetensors.torch.save({name: tensor.contiguous() for name, tensor in state.items()})

    def update(
        self, rollouts: Sequence[Rollout], advantages: Sequence[float], *, version: int, passes: int = 2
    ) -> Update:
        """Gradient steps on these rollouts, an advantage for each. `version`: what the weights are now."""
        ids, mask, sampled, versions = _padded(rollouts)
        gain = torch.tensor(advantages)[:, None].expand_as(mask)[mask]
        sampled, own = sampled[mask], versions[mask] == version
        with torch.no_grad():
            first = token_logprobs(self.first, ids)[mask]
        for step in range(passes):
            now = token_logprobs(self.model, ids)[mask]
            if step == 0:
                gap = (now - sampled)[own].abs().max().item() if own.any() else nan
                moved = _kl(now, first).mean().item()
            ratio = (now - sampled).exp()  # to the weights that sampled the token, whichever these were
            kept = ratio.clamp(1 - self._clip, 1 + self._clip)
            loss = -torch.minimum(ratio * gain, kept * gain) + self._kl_weight * _kl(now, first)
            self._optimizer.zero_grad()
            loss.mean().backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self._optimizer.step()
        return Update(gap, moved, (ratio != kept).float().mean().item())


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """GRPO: how much better each answer to a prompt is than the others, in standard deviations."""
    middle, spread = mean(rewards), pstdev(rewards)
    return [(reward - middle) / (spread + 1e-4) for reward in rewards]


def _load(model: str) -> torch.nn.Module:
    return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()


def _padded(rollouts: Sequence[Rollout]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids [rows, length]; and for each token but the first: trained on?, log-probability, weight version."""
    length = max(len(rollout.tokens) for rollout in rollouts)

    def rows(lists, dtype) -> Tensor:
        return torch.tensor([[*row, *[0] * (length - len(row))] for row in lists], dtype=dtype)

    ids = rows([rollout.tokens for rollout in rollouts], torch.int64)
    mask = rows([rollout.loss_mask for rollout in rollouts], torch.bool)
    logprobs = rows([rollout.logprobs for rollout in rollouts], torch.float32)
    known = [[-1 if version is None else version for version in rollout.versions] for rollout in rollouts]
    versions = rows(known, torch.int64)
    return ids, mask[:, 1:], logprobs[:, 1:], versions[:, 1:]


def token_logprobs(model: torch.nn.Module, ids: Tensor) -> Tensor:
    """Of each token but the first, given those before it. Padding is on the right, where nothing sees it."""
    logits = model(ids).logits[:, :-1]
    return -cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(ids[:, 1:])


def _kl(now: Tensor, first: Tensor) -> Tensor:
    """Schulman's estimate k3 of KL(now ‖ first), per token."""
    return (first - now).exp() - 1 - (first - now)
