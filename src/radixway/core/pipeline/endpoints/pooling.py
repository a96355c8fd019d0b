"""Vectors, classes and scores of texts, in the shapes of vLLM, SGLang and Jina."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from radixway.core.http import BadBodyError
from radixway.core.pipeline.endpoints.base import Endpoint, ParsedRequest, ReplyForm, RequestBody, named_user

_Content = str | dict[str, Any]
"""Text, or an object around it: Jina's `{"text": …}`, vLLM's `{"content": [parts]}`."""
_Pooled = str | Annotated[list[str | int | list[int] | dict[str, Any]], Meta(min_length=1)]
"""Texts, objects around them, or the token ids of one or of several."""
_TokenIds = Annotated[list[int | list[int]], Meta(min_length=1)]
_Contents = _Content | Annotated[list[_Content], Meta(min_length=1)]


class PoolingBody(RequestBody, kw_only=True):
    """The fields that all three share; what else they have travels on as it is."""

    user: Any = None
    safety_identifier: Any = None

    def parse(self) -> ParsedRequest:
        user = named_user(self.user, self.safety_identifier)
        return ParsedRequest(self.model, False, self.priority, self.ttft_slo_ms, user=user)


class EmbeddingBody(PoolingBody, kw_only=True):
    """The fields that the gateway reads of embeddings: `input`, or vLLM's `messages`."""

    input: _Pooled | None = None
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None

    def parse(self) -> ParsedRequest:
        if self.input is None and self.messages is None:
            raise BadBodyError("one of input and messages is needed", code="missing_field", param="input")
        return PoolingBody.parse(self)


class PoolBody(PoolingBody, kw_only=True):
    """What the gateway reads of pooling and classification: vLLM's `input`, `messages` or a plug-in's `data`,
    SGLang's `text` or `input_ids`."""

    input: _Pooled | None = None
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    text: str | Annotated[list[str], Meta(min_length=1)] | None = None
    input_ids: _TokenIds | None = None
    data: Any = None

    def parse(self) -> ParsedRequest:
        given = (self.input, self.messages, self.text, self.input_ids, self.data)
        if all(field is None for field in given):
            message = "one of input, messages, text, input_ids and data is needed"
            raise BadBodyError(message, code="missing_field", param="input")
        return PoolingBody.parse(self)


class RerankBody(PoolingBody, kw_only=True):
    """The fields that the gateway reads of a rerank request."""

    query: _Content
    documents: _Contents
    top_n: Annotated[int, Meta(ge=0)] | None = None


class ScoreBody(PoolingBody, kw_only=True):
    """What the gateway reads of a score request: two texts or lists of them, by one of `_SCORE_PAIRS`."""

    text_1: _Contents | None = None
    text_2: _Contents | None = None
    data_1: _Contents | None = None
    data_2: _Contents | None = None
    queries: _Contents | None = None
    documents: _Contents | None = None
    query: _Contents | None = None
    items: _Contents | None = None

    def parse(self) -> ParsedRequest:
        first = next((name for name in _SCORE_PAIRS if getattr(self, name) is not None), None)
        others = _SCORE_PAIRS[first] if first is not None else ("text_1",)
        if all(getattr(self, name) is None for name in others):
            message = f"{others[0]} is needed: give text_1 and text_2, or queries and documents"
            raise BadBodyError(message, code="missing_field", param=others[0])
        return PoolingBody.parse(self)


_SCORE_PAIRS: dict[str, tuple[str, ...]] = {
    "text_1": ("text_2",),
    "data_1": ("data_2",),
    "queries": ("documents", "items"),
    "query": ("items",),
}
"""Pairs of fields that are scored: vLLM's names, then SGLang's."""

EMBEDDINGS = Endpoint(
    path="/v1/embeddings",
    name="openai.embeddings",
    description="The vectors of texts, token ids or one conversation.",
    body=EmbeddingBody,
    text_fields=("input", "messages"),
    reply_form=ReplyForm.POOLING,
    operation="embeddings",
)
RERANK = Endpoint(
    path="/v1/rerank",
    aliases=("/rerank", "/v2/rerank"),
    name="rerank",
    description="Documents in the order of their relevance to a query, as Jina and vLLM have it.",
    body=RerankBody,
    text_fields=("query", "documents"),
    reply_form=ReplyForm.POOLING,
    operation="rerank",
)
SCORE = Endpoint(
    path="/v1/score",
    aliases=("/score",),
    name="score",
    description="How alike pairs of texts are, as vLLM and SGLang have it.",
    body=ScoreBody,
    text_fields=("text_1", "text_2", "data_1", "data_2", "queries", "documents", "query", "items"),
    reply_form=ReplyForm.POOLING,
    operation="score",
)
_POOLED_FIELDS = ("input", "messages", "text", "input_ids", "data")
POOLING = Endpoint(
    path="/pooling",
    name="pooling",
    description="What a pooling model makes of texts, as vLLM has it.",
    body=PoolBody,
    text_fields=_POOLED_FIELDS,
    reply_form=ReplyForm.POOLING,
    operation="embeddings",
    by_surface=True,
)
CLASSIFY = Endpoint(
    path="/classify",
    aliases=("/v1/classify",),
    name="classify",
    description="The classes of texts, or their rewards, as vLLM and SGLang have it.",
    body=PoolBody,
    text_fields=_POOLED_FIELDS,
    reply_form=ReplyForm.POOLING,
    operation="classify",
    by_surface=True,
)
ENCODE = Endpoint(
    path="/encode",
    name="encode",
    description="The vectors of texts or token ids, as SGLang has it.",
    body=PoolBody,
    text_fields=_POOLED_FIELDS,
    reply_form=ReplyForm.POOLING,
    operation="embeddings",
    by_surface=True,
)
