"""Rows to a tagger, by stochastic gradient descent on what tags a word may have."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radixway.semantics.encoders.base import Floats
from radixway.semantics.guard.pii.sequence_tagger import TAGS, WIDTH

Array = NDArray[np.generic]


@dataclass(slots=True, frozen=True)
class Choices:
    """What was tried in several ways; the figures stand in docs/evaluations/guard.md."""

    hidden: int = 56
    epochs: int = 4
    rate: float = 4e-3
    decay: float = 1e-2
    dropout: float = 0.2
    blank: float = 0.3
    """Share of texts in which no word is known as a name: no list of names is complete."""
    batch: int = 5000
    """Words."""
    seed: int = 7


@dataclass(slots=True)
class Example:
    """One text, ready to be learnt from."""

    allowed: NDArray[np.int64]
    """[words]: bits of the tags each may have."""
    weight: float
    inputs: Callable[[bool], tuple[Array, ...]]
    """What the first layer reads, [words, …] each; with True, without what lists say."""


class ConvTagger(nn.Module):
    """See `radixway.semantics.guard.pii.sequence_tagger.TaggerConvolutions`."""

    def __init__(self, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Conv1d(hidden, hidden, WIDTH, padding=WIDTH // 2)
        self.second = nn.Conv1d(hidden, hidden, WIDTH, padding=WIDTH // 2)
        self.out = nn.Linear(hidden, len(TAGS))
        self.drop = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, inside: Tensor) -> Tensor:
        """[words, tags]; `inside` is 0 where one text ends and the next has not begun."""
        seen = hidden * inside
        for layer in (self.first, self.second):
            found = torch.relu(layer(seen.T[None])[0].T)
            seen = (seen + self.drop(found)) * inside
        return self.out(self.drop(seen))  # type: ignore[no-any-return]

    def arrays(self, prefix: str) -> dict[str, Array]:
        """By the names they have in the file."""
        flat = {
            name: layer.weight.detach().permute(2, 1, 0).reshape(-1, layer.out_channels).numpy()
            for name, layer in (("first", self.first), ("second", self.second))
        }
        biases = {"first_bias": self.first.bias, "second_bias": self.second.bias, "out_bias": self.out.bias}
        named = flat | {"out": self.out.weight.detach().T.numpy()}
        named |= {name: bias.detach().numpy() for name, bias in biases.items()}
        return {f"{prefix}_{name}": array.astype(np.float16) for name, array in named.items()}


class Tagger(nn.Module):
    """A first layer of one's own, and the convolutions."""

    def __init__(self, first: nn.Module, choices: Choices) -> None:
        super().__init__()
        self.first = first
        self.convolutions = ConvTagger(choices.hidden, choices.dropout)
        self.drop = nn.Dropout(choices.dropout)

    def forward(self, inputs: tuple[Tensor, ...], inside: Tensor) -> Tensor:
        return self.convolutions(self.drop(torch.relu(self.first(*inputs))), inside)  # type: ignore[no-any-return]

    def likelihoods(self, inputs: tuple[Array, ...]) -> Floats:
        """[words, tags], of one text."""
        whole = tuple(torch.from_numpy(_joined([column], 0)) for column in inputs)
        with torch.inference_mode():
            likely: Floats = self(whole, torch.ones(len(whole[0]), 1)).softmax(1).numpy()
        return likely


def fit(
    first: Callable[[], nn.Module],
    examples: list[Example],
    choices: Choices,
    told: Callable[[str], None] = print,
) -> Tagger:
    """Trained in one thread: the same rows and choices give the same tagger on the same machine."""
    torch.set_num_threads(1)
    torch.manual_seed(choices.seed)
    rng = random.Random(choices.seed)
    tagger = Tagger(first(), choices)
    batches = _count_batches(examples, choices)
    optimizer = torch.optim.AdamW(tagger.parameters(), choices.rate, weight_decay=choices.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, choices.rate, total_steps=batches * choices.epochs + 8
    )
    for epoch in range(choices.epochs):
        total, steps = 0.0, 0
        for batch in _batches(examples, choices, rng):
            loss = _loss(tagger, batch, rng, choices)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total, steps = total + float(loss.detach()), steps + 1
        told(f"epoch {epoch + 1} of {choices.epochs}: loss {total / steps:.4f}")
    return tagger.eval()


def _loss(tagger: Tagger, batch: list[Example], rng: random.Random, choices: Choices) -> Tensor:
    """Minus the logarithm of what the allowed tags have together, by words."""
    gap = WIDTH // 2 * 2
    columns = zip(*(example.inputs(rng.random() < choices.blank) for example in batch), strict=True)
    inputs = tuple(torch.from_numpy(_joined(list(column), gap)) for column in columns)
    allowed = torch.from_numpy(_joined([example.allowed for example in batch], gap))
    weights = [np.full(len(example.allowed), example.weight, np.float32) for example in batch]
    weight = torch.from_numpy(_joined(weights, gap))
    inside = (allowed != 0).float()[:, None]
    scores = torch.log_softmax(tagger(inputs, inside), dim=1)
    may = (allowed[:, None] >> torch.arange(len(TAGS))) & 1
    known = (allowed != 0) & (may.sum(1) < len(TAGS))
    fitting = torch.logsumexp(scores.masked_fill(may == 0, -1e9), dim=1)
    return -(fitting * weight)[known].sum() / weight[known].sum()


def _joined(parts: list[Array], gap: int) -> Array:
    """One after the other, with `gap` rows of zeros between them."""
    between = np.zeros((gap, *parts[0].shape[1:]), parts[0].dtype)
    joined = np.concatenate([each for part in parts for each in (part, between)])
    return joined.astype(np.float32) if joined.dtype == np.float16 else joined


def _batches(examples: list[Example], choices: Choices, rng: random.Random) -> list[list[Example]]:
    order = list(range(len(examples)))
    rng.shuffle(order)
    batches: list[list[Example]] = [[]]
    words = 0
    for index in order:
        batches[-1].append(examples[index])
        words += len(examples[index].allowed)
        if words >= choices.batch:
            batches.append([])
            words = 0
    return [batch for batch in batches if batch]


def _count_batches(examples: list[Example], choices: Choices) -> int:
    return sum(len(example.allowed) for example in examples) // choices.batch + 1
