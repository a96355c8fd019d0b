"""Runs the model on one step's work: tokens in, logits of those that reached their end out."""

from array import array
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from radixway.engine.attention import AttentionBackend
from radixway.engine.attention_metadata import AttentionMetadata, QuerySpan
from radixway.engine.disaggregation import notify_senders
from radixway.engine.engine_request import EngineRequest, ScheduledRequest
from radixway.engine.errors import EngineError
from radixway.engine.logprobs import score_prompts
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.transformer_model import TransformerModel


class ModelRunner:
    """The model on its device, with the attention over its KV."""

    def __init__(self, model: TransformerModel, attention: AttentionBackend, page_size: int) -> None:
        self.model = model
        """May be exchanged for one with weights of the same shapes, format and device."""
        self.attention = attention
        self._page_size = page_size
        self._dtype = model.embedding.dtype
        self._device = model.embedding.device

    @torch.inference_mode()
    def execute_model(self, work: Sequence[ScheduledRequest]) -> tuple[Tensor, list[EngineRequest]]:
        """Compute and store the KV of `work`; the next-token logits [n, vocabulary], and whose they are."""
        spans = [QuerySpan(request.num_computed_tokens, tokens, request.pages) for request, tokens in work]
        share = self.attention.shares
        plan = AttentionMetadata.build_metadata(
            spans, self._page_size, self._dtype, self._device, share=share
        )
        work = [work[i] for i in plan.order]
        tokens = np.concatenate([_next_tokens(request, tokens) for request, tokens in work])
        attend = notify_senders(partial(self.attention, plan), work)
        hidden = self.model.forward(torch.from_numpy(tokens).to(self._device), plan.positions, attend)
        score_prompts(self.model.compute_logits, hidden, work, self.model.architecture.vocab_size)
        ends = np.cumsum([part.tokens for part in work]) - 1
        sampling = [(end, part.request) for end, part in zip(ends, work, strict=True) if part.reaches_end]
        rows = torch.tensor([end for end, _ in sampling], dtype=torch.int64, device=self._device)
        return self.model.compute_logits(hidden[rows]), [request for _, request in sampling]

    def dummy_run(self) -> None:
        """Compute a few dummy tokens, in page 0. Raises EngineError if that cannot be done."""
        zeros = array("i", [0] * 3)
        dummy = EngineRequest(id="", tokens=zeros, params=SamplingParams(), pages=zeros[:])
        try:
            self.execute_model([ScheduledRequest(dummy, 2)])
            dummy.num_computed_tokens = 2
            self.execute_model([ScheduledRequest(dummy, 1)])
        except RuntimeError as error:
            raise EngineError(f"this machine cannot run the model on {self._device}: {error}") from error


def _next_tokens(request: EngineRequest, count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return a copy of the next tokens: the request's array must stay free to grow."""
    start = request.num_computed_tokens
    return np.array(request.tokens[start : start + count], dtype=np.int64)
