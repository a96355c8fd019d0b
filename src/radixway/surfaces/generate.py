"""SGLang's native surface: `POST /generate`, text or token ids in, text and token ids out."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.surfaces.exchange import (
    Asked,
    Milliseconds,
    ModelName,
    Priority,
    Rids,
    Staleness,
    Version,
    named_rids,
)
from radixway.web import BadBody, read_json

_NOTHING = (b"", b"null")


class SamplingParams(msgspec.Struct):
    """What every worker understands the same way."""

    max_new_tokens: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    n: Any = None


class GenerateBody(msgspec.Struct):
    """What the gateway reads of it; all other fields travel on as they are."""

    # Token ids can be many and are the worker's to check: they are skipped over, not built.
    text: str | list[str] | None = None
    input_ids: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input_embeds: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool | None = None
    model: ModelName | None = None
    priority: Priority = None
    ttft_slo_ms: Milliseconds = None
    max_staleness: Staleness = None
    min_weight_version: Version = None
    rid: Rids = None


class Generate:
    """`/generate`. The body names no model; `model` is understood where a client adds it."""

    name = "generate"
    methods: tuple[str, ...] = ("POST", "PUT")
    _decoder = msgspec.json.Decoder(GenerateBody)

    def read(self, raw: bytes) -> Asked:
        body = read_json(self._decoder, raw)
        given = (bytes(body.input_ids), bytes(body.input_embeds))
        if body.text is None and all(field in _NOTHING for field in given):
            raise BadBody("one of text and input_ids is needed", code="missing_field", param="text")
        return Asked(
            body.model,
            bool(body.stream),
            body.priority,
            body.ttft_slo_ms,
            body.max_staleness,
            body.min_weight_version,
            named_rids(body.rid),
            answers=1 if _is_for_one(body) else None,
        )


def _is_for_one(body: GenerateBody) -> bool:
    """Whether it asks for a single answer."""
    sampling = body.sampling_params
    if (
        isinstance(body.text, list)
        or isinstance(sampling, list)
        or (sampling and sampling.n not in (None, 1))
    ):
        return False
    ids = bytes(memoryview(body.input_ids)[:16])
    return ids[:1] + ids[1:].lstrip()[:1] != b"[["
