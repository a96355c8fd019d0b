"""Runs the model on one step's work: tokens in, logits of those that reached their end out."""

from array import array
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from radixway.engine.attention import Attention
from radixway.engine.disaggregation import telling_departures
from radixway.engine.errors import EngineError
from radixway.engine.logprobs import score_prompts
from radixway.engine.model import Model
from radixway.engine.plan import Plan, Span
from radixway.engine.request import Request, SamplingParams
from radixway.engine.scheduler import Work


class Runner:
    """The model on its device, with the attention over its KV."""

    def __init__(self, model: Model, attention: Attention, page_size: int) -> None:
        self.model = model
        self.attention = attention
        self._page_size = page_size
        self._dtype = model.embedding.dtype
        self._device = model.embedding.device

    def use(self, model: Model) -> None:
        """Compute with the weights of `model` from here on; their shapes, format and device are the same."""
        self.model = model

    @torch.inference_mode()
    def run(self, work: Sequence[Work]) -> tuple[Tensor, list[Request]]:
        """Compute and store the KV of `work`; the next-token logits [n, vocabulary], and whose they are."""
        spans = [Span(request.computed, tokens, request.pages) for request, tokens in work]
        plan = Plan.make(spans, self._page_size, self._dtype, self._device, share=self.attention.shares)
        work = [work[i] for i in plan.order]
        tokens = np.concatenate([_tokens(request, tokens) for request, tokens in work])
        attend = telling_departures(partial(self.attention, plan), work)
        hidden = self.model.hidden(torch.from_numpy(tokens).to(self._device), plan.positions, attend)
        score_prompts(self.model.logits, hidden, work, self.model.architecture.vocab_size)
        ends = np.cumsum([part.tokens for part in work]) - 1
        sampling = [(end, part.request) for end, part in zip(ends, work, strict=True) if part.samples]
        rows = torch.tensor([end for end, _ in sampling], dtype=torch.int64, device=self._device)
        return self.model.logits(hidden[rows]), [request for _, request in sampling]

    def try_out(self) -> None:
        """Compute a few tokens of nobody's, in page 0. Raises EngineError if that cannot be done."""
        nobody = Request(
            id="", tokens=array("i", [0] * 3), params=SamplingParams(), pages=array("i", [0] * 3)
        )
        try:
            self.run([Work(nobody, 2)])
            nobody.computed = 2
            self.run([Work(nobody, 1)])
        except RuntimeError as error:
            raise EngineError(f"this machine cannot run the model on {self._device}: {error}") from error


def _tokens(request: Request, count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The tokens to compute next, copied: the request's own array must stay free to grow."""
    return np.array(request.tokens[request.computed : request.computed + count], dtype=np.int64)
