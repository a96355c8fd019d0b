"""SGLang's `/generate`: text or token ids in, text and token ids out."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.http import BadBodyError
from radixway.core.pipeline.endpoints.base import (
    Endpoint,
    ParsedRequest,
    ReplyForm,
    RequestBody,
    Rids,
    Staleness,
    Version,
    named_rids,
)

_NOTHING = (b"", b"null")


class SamplingParams(msgspec.Struct):
    """Sampling parameters that every worker understands the same way."""

    max_new_tokens: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    n: Any = None


class GenerateBody(RequestBody, kw_only=True):
    """The fields that the gateway reads of a body for `/generate`; all other fields travel on as they are.
    SGLang's names no model.
    """

    # Token ids can be many and are the worker's to check: they are skipped over, not built.
    text: str | list[str] | None = None
    input_ids: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input_embeds: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool | None = None
    max_staleness: Staleness = None
    min_weight_version: Version = None
    rid: Rids = None

    def parse(self) -> ParsedRequest:
        given = (bytes(self.input_ids), bytes(self.input_embeds))
        if self.text is None and all(field in _NOTHING for field in given):
            raise BadBodyError("one of text and input_ids is needed", code="missing_field", param="text")
        return ParsedRequest(
            self.model,
            bool(self.stream),
            self.priority,
            self.ttft_slo_ms,
            self.max_staleness,
            self.min_weight_version,
            named_rids(self.rid),
            answers=1 if self._is_for_one() else None,
        )

    def _is_for_one(self) -> bool:
        """Return whether it asks for a single answer."""
        sampling = self.sampling_params
        if (
            isinstance(self.text, list)
            or isinstance(sampling, list)
            or (sampling and sampling.n not in (None, 1))
        ):
            return False
        ids = bytes(memoryview(self.input_ids)[:16])
        return ids[:1] + ids[1:].lstrip()[:1] != b"[["


GENERATE = Endpoint(
    path="/generate",
    name="generate",
    description="SGLang's: text or token ids in, both out; `return_logprob` and the rest travel on.",
    body=GenerateBody,
    text_fields=("text",),
    reply_form=ReplyForm.GENERATE,
    methods=("POST", "PUT"),
    salt_field="extra_key",
    operation="text_completion",
)
