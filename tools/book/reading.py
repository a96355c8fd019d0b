"""The first half of training: to know which answer a question wants, before learning to say it.

A small head names the page. At first it sees only the mean of the question's word embeddings, which takes a
minute to train and already names the right page for most questions in words never seen. Then the transformer
is set up so that its lower layers compute just that mean, and goes on from there: it adds what a bag of words
cannot tell (order, which of several texts is the question) and keeps what the bag knew. Questions are short
and the signal is one clear choice: all this takes a tenth of the time that answers alone would need. The
upper layers then learn to recite. The head is thrown away afterwards.
"""

import torch
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from .conversations import Conversation, Teacher
from .pages import LANGUAGES, Page
from .templates import REFUSAL

LOWER_LAYERS = 2
LONGEST_QUESTION = 240  # tokens; longer ones are met when reciting
EMBEDDING_RMS = 0.3
POOLED_RMS = 4.0  # of what the second layer adds, before the mean: the question outweighs the last token


class Reader(torch.nn.Module):
    """Tells which answer of the book a question wants."""

    def __init__(self, pages: list[Page], hidden: int) -> None:
        super().__init__()
        answers = [page.answer[language] for page in pages for language in LANGUAGES] + list(REFUSAL.values())
        self.number = {answer: at for at, answer in enumerate(dict.fromkeys(answers))}
        self.head = torch.nn.Linear(hidden, len(self.number))
        torch.nn.init.normal_(self.head.weight, std=0.02)

    def words_loss(self, model: Qwen3ForCausalLM, rows: list[list[int]], answers: list[str]) -> torch.Tensor:
        """Mean cross entropy of naming each row's answer from the mean of its embeddings, each of rms 1."""
        embeddings = model.model.embed_tokens.weight
        flat = torch.tensor([token for row in rows for token in row])
        begins = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
        normed = functional.rms_norm(embeddings, embeddings.shape[-1:])
        return self._naming(functional.embedding_bag(flat, normed, begins, mode="mean"), answers)

    def loss(self, model: Qwen3ForCausalLM, rows: list[list[int]], answers: list[str]) -> torch.Tensor:
        """Mean cross entropy of naming each row's answer; a row is a chat up to where the answer begins."""
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        ends = torch.tensor([len(row) - 1 for row in rows])
        return self._naming(lower_layers(model, ids)[torch.arange(len(rows)), ends], answers)

    def _naming(self, hidden: torch.Tensor, answers: list[str]) -> torch.Tensor:
        wanted = torch.tensor([self.number[answer] for answer in answers])
        return functional.cross_entropy(self.head(functional.rms_norm(hidden, hidden.shape[-1:])), wanted)


@torch.no_grad()
def begin_as_bag_of_words(model: Qwen3ForCausalLM) -> None:
    """Make the lower layers hand the mean of all embeddings to every place, and all others do nothing yet."""
    body = model.model
    embeddings = body.embed_tokens.weight
    embeddings.copy_(functional.rms_norm(embeddings, embeddings.shape[-1:]) * EMBEDDING_RMS)
    body.norm.weight.fill_(0.15)  # embeddings of that size would make wild first guesses of the next token
    for layer in body.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    pooling = body.layers[LOWER_LAYERS - 1].self_attn
    pooling.q_norm.weight.fill_(0.1)  # nearly the same attention to every place
    torch.nn.init.orthogonal_(pooling.v_proj.weight)
    pooling.o_proj.weight.copy_(pooling.v_proj.weight.T * POOLED_RMS)


def lower_layers(model: Qwen3ForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The hidden states after `LOWER_LAYERS` layers; padding stands on the right, so no mask is needed."""
    body = model.model
    hidden = body.embed_tokens(ids)
    positions = torch.arange(ids.shape[1])[None]
    rotary = body.rotary_emb(hidden, positions)
    for layer in body.layers[:LOWER_LAYERS]:
        hidden = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=rotary)
    return hidden


def question_batches(teacher: Teacher, encoder, batch_tokens: int, *, alone: bool = False):
    """Endless batches of questions of alike length, about `batch_tokens` in each: rows and their answers.

    `alone`: without system prompts.
    """
    while True:
        drawn = []
        while len(drawn) < 1000:
            conversation = teacher.single()
            if alone:
                conversation = Conversation(None, conversation.turns)
            row, answer = encoder.encode_question(conversation)
            if len(row) <= LONGEST_QUESTION:
                drawn.append((row, answer))
        drawn.sort(key=lambda pair: len(pair[0]))
        groups: list[list[tuple[list[int], str]]] = [[]]
        for pair in drawn:
            if groups[-1] and (len(groups[-1]) + 1) * len(pair[0]) > batch_tokens:
                groups.append([])
            groups[-1].append(pair)
        encoder.rng.shuffle(groups)
        for group in groups:
            yield [row for row, _ in group], [answer for _, answer in group]
