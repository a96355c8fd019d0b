"""The objects of OpenAI's chat and completions answers, whole and streamed, with vLLM's additions.

A stream has one write for each step of the engine, and usage at the end if requested.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from radixway.core.http.server_sent_events import write_event
from radixway.core.tokenizer import Tokenizer
from radixway.engine.engine_request import FinishReason, RequestOutput, TokenLogprob
from radixway.engine.server.generation_group import GenerationGroup
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.server.openai_fields import SamplingBody

MIN_LOGPROB = -9999.0  # JSON has no -inf; OpenAI writes this


class PromptTokensDetails(msgspec.Struct):
    """Part of `usage`."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct):
    """Part of `usage`."""

    reasoning_tokens: int


class CompletionUsage(msgspec.Struct):
    """Tokens in, tokens out, and how many of the first came from the cache."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    reasoning_tokens: int | UnsetType | None = UNSET
    """Tokens of the answers up to the end of their reasoning, under SGLang's name; chats have it."""
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET
    """Left out where nothing is reasoning."""


class FunctionCall(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The function a tool call names, and its arguments as JSON; in a stream, more of them."""

    name: str | UnsetType = UNSET
    arguments: str


class ToolCall(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A tool call; in a stream, what is added to the one with this index."""

    index: int | UnsetType = UNSET
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: FunctionCall


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """The assistant's message, or in a stream what is added to it."""

    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class ChatChoice(msgspec.Struct, kw_only=True):
    """An answer of a chat completion; `delta` in a stream, `message` in a whole reply."""

    index: int
    message: ChatMessage | UnsetType = UNSET
    delta: ChatMessage | UnsetType = UNSET
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None
    stop_reason: int | str | UnsetType | None = None
    matched_stop: int | str | UnsetType | None = None
    prompt_token_ids: list[int] | UnsetType = UNSET
    token_ids: list[int] | UnsetType | None = None


class TextChoice(msgspec.Struct, kw_only=True):
    """An answer of a completion."""

    index: int
    text: str
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None
    stop_reason: int | str | UnsetType | None = None
    matched_stop: int | str | UnsetType | None = None
    prompt_token_ids: list[int] | UnsetType | None = None
    token_ids: list[int] | UnsetType | None = None
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType | None = None


class CompletionReply(msgspec.Struct, kw_only=True):
    """A whole reply or one chunk of a stream; `object` says of which kind."""

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[ChatChoice | TextChoice]
    usage: CompletionUsage | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType | None = UNSET
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType | None = UNSET
    prompt_text: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


def sum_usage(
    answers: Sequence[RequestOutput], per_prompt: int, reasoning_tokens: int | None = None
) -> CompletionUsage:
    """The usage of a request whose every prompt got `per_prompt` answers, in that order."""
    firsts = answers[::per_prompt]
    prompt_tokens = sum(answer.prompt_tokens for answer in firsts)
    completion_tokens = sum(answer.completion_tokens for answer in answers)
    cached_tokens = sum(answer.cached_tokens for answer in firsts)
    return make_usage(prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens)


def make_usage(
    prompt_tokens: int, completion_tokens: int, cached_tokens: int, reasoning_tokens: int | None = None
) -> CompletionUsage:
    """The usage of these numbers of tokens; no `reasoning_tokens`: they are not counted."""
    usage = CompletionUsage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens),
    )
    if reasoning_tokens is not None:
        usage.reasoning_tokens = reasoning_tokens
    if reasoning_tokens:
        usage.completion_tokens_details = CompletionTokensDetails(reasoning_tokens)
    return usage


def finish_reason_name(finish: FinishReason | None) -> str | None:
    """The name of `finish`: `stop`, `length` or `abort`; None while the answer goes on."""
    return None if finish is None else finish.type


def set_stop(
    choice: ChatChoice | TextChoice, finish: FinishReason | None, eos_token_ids: frozenset[int]
) -> None:
    """Write what `finish` matched into `choice`: in SGLang's `matched_stop` a stop string or token id; in
    vLLM's `stop_reason` that too, but null for end-of-sequence. Neither is in a chunk before the last.
    """
    if finish is None:
        choice.stop_reason = choice.matched_stop = UNSET
        return
    choice.matched_stop = finish.matched
    choice.stop_reason = None if finish.matched in eos_token_ids else finish.matched


@dataclass(slots=True, frozen=True)
class LogprobFormat:
    """How a request wants its log-probabilities written."""

    tokenizer: Tokenizer
    as_token_ids: bool
    """Tokens are written `token_id:ID`: vLLM's `return_tokens_as_token_ids`."""
    by_name: bool
    """Alternatives are those of `logprob_token_ids`, not the most likely ones."""

    def name_token(self, token_id: int) -> str:
        """The token as the reply writes it."""
        return f"token_id:{token_id}" if self.as_token_ids else self.tokenizer.piece(token_id)

    def list_alternatives(self, item: TokenLogprob) -> Sequence[tuple[int, float]]:
        """The (token id, log-probability) pairs given beside the sampled one's."""
        return item.named if self.by_name else item.top


def make_logprob_format(tokenizer: Tokenizer, body: SamplingBody) -> LogprobFormat:
    """How `body` wants its log-probabilities written."""
    return LogprobFormat(tokenizer, bool(body.return_tokens_as_token_ids), bool(body.logprob_token_ids))


def make_chat_logprobs(style: LogprobFormat, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The `logprobs` field of a chat choice."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        data = list(style.tokenizer.token_bytes[token_id])
        return {"token": style.name_token(token_id), "logprob": max(logprob, MIN_LOGPROB), "bytes": data}

    content = [
        {
            **entry(item.token_id, item.logprob),
            "top_logprobs": [entry(*pair) for pair in style.list_alternatives(item)],
        }
        for item in logprobs
    ]
    return {"content": content, "refusal": None}


def make_prompt_logprobs(
    tokenizer: Tokenizer, logprobs: Sequence[TokenLogprob], top: int
) -> list[dict[str, Any] | None]:
    """vLLM's `prompt_logprobs`: null for the first token, then each with the `top` likely in its place."""

    def entry(token_id: int, logprob: float, rank: int) -> dict[str, Any]:
        text = tokenizer.piece(token_id)
        return {"logprob": max(logprob, MIN_LOGPROB), "rank": rank, "decoded_token": text}

    def entries(item: TokenLogprob) -> dict[str, Any]:
        best = {str(token): entry(token, p, rank) for rank, (token, p) in enumerate(item.top[:top], start=1)}
        return {str(item.token_id): entry(item.token_id, item.logprob, item.rank)} | best

    return [None, *map(entries, logprobs)]


def make_weight_versions(answer: RequestOutput) -> list[dict[str, Any]]:
    """Which version of the weights made the tokens [start, end) of `answer`, as SGLang writes it."""
    spans = answer.weight_spans
    return [{"version": version, "start": start, "end": end} for version, start, end in spans]


def make_weight_metadata(answer: RequestOutput) -> dict[str, Any]:
    """SGLang's `metadata`: which weights made the answer, token by token if it was more than one version.

    OpenAI's own `metadata` has texts only, and its client warns of anything else.
    """
    versions = make_weight_versions(answer)
    metadata = {"weight_version": answer.weight_version}
    return metadata | {"weight_versions": versions} if len(versions) > 1 else metadata


def make_text_logprobs(
    style: LogprobFormat, items: Sequence[TokenLogprob | int], offset: int, top: int
) -> dict[str, Any]:
    """The `logprobs` of a completions choice whose first token starts `offset` characters into the text.

    With the `top` likely tokens in the place of each. A bare id is a token that has no log-probability.
    """

    def alternatives(item: TokenLogprob) -> dict[str, float]:
        others = item.named if style.by_name else item.top[:top]
        pairs = ((item.token_id, item.logprob), *others)
        return {style.name_token(token_id): max(logprob, MIN_LOGPROB) for token_id, logprob in pairs}

    ids = [item if isinstance(item, int) else item.token_id for item in items]
    offsets = []
    for token_id in ids:
        offsets.append(max(0, offset))
        offset += len(style.tokenizer.piece(token_id))
    return {
        "tokens": [style.name_token(token_id) for token_id in ids],
        "token_logprobs": [
            None if isinstance(item, int) else max(item.logprob, MIN_LOGPROB) for item in items
        ],
        "top_logprobs": [None if isinstance(item, int) else alternatives(item) for item in items],
        "text_offset": offsets,
    }


ReplyChoices = Sequence[ChatChoice | TextChoice]


def choose_reply_id(prefix: str, body: SamplingBody, exchange: HttpExchange) -> str:
    """Return the id of a reply: SGLang's `rid` as it is, else `prefix` and vLLM's `request_id` or ours."""
    return body.rid if isinstance(body.rid, str) else f"{prefix}-{body.request_id or exchange.request_id}"


@dataclass(slots=True, frozen=True)
class ReplyHead:
    """The fields that every object of one answer begins with."""

    id: str
    object: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def make_reply(self, choices: ReplyChoices) -> CompletionReply:
        """An object with these `choices`."""
        return CompletionReply(
            id=self.id, object=self.object, created=self.created, model=self.model, choices=choices
        )


class ReplyMaker(Protocol):
    """Makes the objects of one answer, whole or as a stream, in its protocol."""

    head: ReplyHead

    def make_completion(self, answers: list[RequestOutput]) -> CompletionReply:
        """The reply with each of `answers` as a choice."""

    def make_chunks(self, index: int, output: RequestOutput) -> list[CompletionReply]:
        """The chunks for one more output of choice `index`; none if it adds nothing."""

    def count_reasoning(self, index: int, output: RequestOutput) -> int | None:
        """How many tokens of choice `index` are reasoning, after its next `output`; None: not counted."""

    @property
    def reasoning_tokens(self) -> int | None:
        """Of all choices so far."""


def _begins_message(chunk: CompletionReply) -> bool:
    choice = chunk.choices[0]
    return isinstance(choice, ChatChoice) and choice.delta is not UNSET and choice.delta.role is not UNSET


async def send_replies(
    exchange: HttpExchange,
    body: SamplingBody,
    answers: GenerationGroup,
    replies: ReplyMaker,
    *,
    per_prompt: int,
) -> None:
    """Answer with what `replies` makes of `answers`, `per_prompt` to a prompt, whole or streamed."""
    if not body.stream:
        await exchange.send_json(replies.make_completion(await answers.gather_outputs()))
        return
    last: dict[int, RequestOutput] = {}

    def make_events(index: int, output: RequestOutput) -> bytes:
        before = output.completion_tokens - len(output.token_ids)
        last[index] = output
        reasoning = replies.count_reasoning(index, output)
        chunks = replies.make_chunks(index, output)
        for chunk in chunks:
            chunk.usage = None if body.include_usage else UNSET
            if body.continuous_usage:
                chunk.usage = make_usage(
                    output.prompt_tokens, output.completion_tokens, output.cached_tokens, reasoning
                )
                if _begins_message(chunk):  # nothing of the answer is in it
                    chunk.usage = make_usage(output.prompt_tokens, before, output.cached_tokens)
                    chunk.usage.reasoning_tokens = None
        return b"".join([write_event(encode(chunk)) for chunk in chunks])

    def make_usage_event() -> bytes:
        if not body.include_usage:
            return b""
        chunk = replies.head.make_reply([])
        outputs = [last[index] for index in sorted(last)]
        chunk.usage = sum_usage(outputs, per_prompt, replies.reasoning_tokens)
        return write_event(encode(chunk))

    await answers.stream_events(exchange, make_events, make_usage_event)
