"""The first half of training: to know which answer a question wants, before learning to say it.

A small head over the lower layers names the page at the place where the answer will begin. Questions are
short and the signal is one clear choice among all answers: that takes a tenth of the time answers alone need.
The upper layers then learn to recite. The head is thrown away afterwards.
"""

import torch
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from .conversations import Teacher
from .pages import LANGUAGES, Page
from .templates import REFUSAL

LOWER_LAYERS = 2
LONGEST_QUESTION = 64  # tokens; longer ones are met when reciting


class Reader(torch.nn.Module):
    """Tells from the lower layers which answer is wanted."""

    def __init__(self, pages: list[Page], hidden: int) -> None:
        super().__init__()
        answers = [page.answer[language] for page in pages for language in LANGUAGES] + list(REFUSAL.values())
        self.number = {answer: at for at, answer in enumerate(dict.fromkeys(answers))}
        self.head = torch.nn.Linear(hidden, len(self.number))
        torch.nn.init.normal_(self.head.weight, std=0.02)

    def loss(self, model: Qwen3ForCausalLM, rows: list[list[int]], answers: list[str]) -> torch.Tensor:
        """Mean cross entropy of naming each row's answer; a row is a chat up to where the answer begins."""
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        ends = torch.tensor([len(row) - 1 for row in rows])
        hidden = lower_layers(model, ids)[torch.arange(len(rows)), ends]
        wanted = torch.tensor([self.number[answer] for answer in answers])
        return functional.cross_entropy(self.head(functional.rms_norm(hidden, hidden.shape[-1:])), wanted)


def lower_layers(model: Qwen3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The hidden states after `LOWER_LAYERS` layers; padding stands on the right, so no mask is needed."""
    body = model.model
    hidden = body.embed_tokens(ids)
    positions = torch.arange(ids.shape[1])[None]
    rotary = body.rotary_emb(hidden, positions)
    for layer in body.layers[:LOWER_LAYERS]:
        hidden = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=rotary)
    return hidden


def question_batches(teacher: Teacher, encoder, size: int):
    """Endless batches of `size` questions of alike length: token rows and their answers."""
    while True:
        drawn = []
        while len(drawn) < 8 * size:
            row, answer = encoder.encode_question(teacher.single())
            if len(row) <= LONGEST_QUESTION:
                drawn.append((row, answer))
        drawn.sort(key=lambda pair: len(pair[0]))
        groups = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        encoder.rng.shuffle(groups)
        for group in groups:
            yield [row for row, _ in group], [answer for _, answer in group]
