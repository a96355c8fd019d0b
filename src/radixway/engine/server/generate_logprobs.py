"""The log-probabilities of an answer of /generate, in SGLang's lists."""

from collections.abc import Sequence
from typing import Any

from radixway.core.tokenizer import Tokenizer
from radixway.engine.engine_request import RequestOutput, TokenLogprob
from radixway.engine.server.engine_service import GenerationJob
from radixway.engine.server.openai_replies import MIN_LOGPROB

LogprobEntry = tuple[float | None, int, str | None]
"""Log-probability, token id, and its text if requested."""


class LogprobLists:
    """An answer's lists, one entry a token; the first of a prompt is of the token before those scored.

    They grow with the answer: each event of a stream repeats them all, and must not build them all again.
    """

    def __init__(self, tokenizer: Tokenizer, job: GenerationJob, *, with_text: bool) -> None:
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
            self.lists["input_token_logprobs"] = [self._make_entry(first, None)]

    def append_part(self, part: RequestOutput) -> None:
        """Append the log-probabilities of `part`, the new tokens of the answer."""
        self._append_items("input", part.prompt_logprobs)
        self._append_items("output", part.logprobs)

    def _append_items(self, side: str, items: Sequence[TokenLogprob]) -> None:
        entries = [self._make_entry(item.token_id, item.logprob) for item in items]
        self.lists[f"{side}_token_logprobs"] += entries
        if self._top:
            self.lists[f"{side}_top_logprobs"] += [self._make_entries(item.top) for item in items]
        if self._named:
            self.lists[f"{side}_token_ids_logprobs"] += [self._make_entries(item.named) for item in items]

    def _make_entry(self, token_id: int, logprob: float | None) -> LogprobEntry:
        text = self._tokenizer.piece(token_id) if self._with_text else None
        return None if logprob is None else max(logprob, MIN_LOGPROB), token_id, text

    def _make_entries(self, pairs: Sequence[tuple[int, float]]) -> list[LogprobEntry]:
        return [self._make_entry(token_id, logprob) for token_id, logprob in pairs]
