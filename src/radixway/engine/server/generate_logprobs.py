"""The log-probabilities in a `meta_info` of /generate, in SGLang's lists."""

from collections.abc import Sequence
from typing import Any

from radixway.engine.request import Output, TokenLogprob
from radixway.engine.server.answers import Answer
from radixway.engine.server.service import Job
from radixway.tokenizer import Tokenizer

_LEAST_LOGPROB = -9999.0  # JSON has no -inf

Entry = tuple[float | None, int, str | None]
"""Log-probability, token id, and its text where that is asked for."""


class LogprobLists:
    """One answer's lists, one entry a token; the first of a prompt is of the token before those scored.

    They grow with the answer: each event of a stream repeats them all, and must not make them all anew.
    """

    def __init__(self, tokenizer: Tokenizer, job: Job, *, with_text: bool) -> None:
        params = job.params
        self.lists: dict[str, list[Any]] = {"input_token_logprobs": [], "output_token_logprobs": []}
        self._tokenizer = tokenizer
        self._with_text = with_text
        self._top, self._named = bool(params.logprobs), bool(params.logprob_ids)
        if self._top:
            self.lists |= {"input_top_logprobs": [], "output_top_logprobs": []}
        if self._named:
            self.lists |= {"input_token_ids_logprobs": [], "output_token_ids_logprobs": []}
        if params.prompt_logprobs is not None:
            for name in self.lists:
                if name.startswith("input"):
                    self.lists[name].append(None)
            first = job.prompt_ids[params.prompt_logprobs_start]
            self.lists["input_token_logprobs"] = [self._entry(first, None)]

    def add(self, part: Answer | Output) -> None:
        """Append what is new of the answer."""
        self._add("input", part.prompt_logprobs)
        self._add("output", part.logprobs)

    def _add(self, side: str, items: Sequence[TokenLogprob]) -> None:
        self.lists[f"{side}_token_logprobs"] += [self._entry(item.token_id, item.logprob) for item in items]
        if self._top:
            self.lists[f"{side}_top_logprobs"] += [self._entries(item.top) for item in items]
        if self._named:
            self.lists[f"{side}_token_ids_logprobs"] += [self._entries(item.named) for item in items]

    def _entry(self, token_id: int, logprob: float | None) -> Entry:
        text = self._tokenizer.piece(token_id) if self._with_text else None
        return None if logprob is None else max(logprob, _LEAST_LOGPROB), token_id, text

    def _entries(self, pairs: Sequence[tuple[int, float]]) -> list[Entry]:
        return [self._entry(token_id, logprob) for token_id, logprob in pairs]
