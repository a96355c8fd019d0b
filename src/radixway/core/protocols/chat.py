"""Chat completions: parsing of bodies, whole replies, and replies as a stream of chunks."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.http import decode_open_struct
from radixway.core.http.server_sent_events import DONE_EVENT
from radixway.core.parsers import CallDelta, MessageDelta
from radixway.core.protocols.answer import (
    AnswerDelta,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
)
from radixway.core.protocols.base import EventWriter, OpenAIErrors, encode, encode_event
from radixway.core.protocols.request import (
    Count,
    Message,
    NormalizedRequest,
    SamplingFields,
    Tool,
    build_function_tool,
    choose_tools,
    field_error,
    require_single_answer,
    response_json_schema,
)


class ChatStreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool | None = None


class OpenAIRequestFields(SamplingFields, kw_only=True):
    """Fields that bodies of chat completions and completions share."""

    model: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    return_token_ids: bool | None = None

    def check_supported(self) -> None:
        """Raises BadBodyError (400) for what has the right type and cannot be had."""
        require_single_answer("n", self.n)
        if self.stream_options is not None and not self.stream:
            raise field_error("stream_options", "is for streams only: give stream: true, or leave it out")

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class _ChatBody(OpenAIRequestFields, kw_only=True):
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class ChatAdapter(OpenAIErrors):
    """`POST …/v1/chat/completions`."""

    name = "openai.chat"

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body. The messages are as the client wrote them, without fields that are null.

        Their content is checked when they are rendered. Raises BadBodyError (400).
        """
        body, fields, extra = decode_open_struct(raw, _ChatBody)
        body.check_supported()
        _refuse_unsupported(body)
        given = [_convert_tool(tool, f"tools[{index}]") for index, tool in enumerate(body.tools or ())]
        tools, tool_choice = choose_tools(body.tool_choice, given or None)
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        schema = response_json_schema(body.response_format, "response_format", nested="json_schema")
        return NormalizedRequest(
            model=body.model,
            messages=[_convert_message(message, f"messages[{i}]") for i, message in enumerate(body.messages)],
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=body.parallel_tool_calls is not False,
            sampling=body.sampling(max_tokens=max_tokens, stop=body.stop, json_schema=schema),
            stream=bool(body.stream),
            include_usage=body.include_usage,
            top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
            return_token_ids=bool(body.return_token_ids),
            template_arguments=reasoning_effort_arguments(body.reasoning_effort)
            | (body.chat_template_kwargs or {}),
            continue_final_message=bool(body.continue_final_message),
            body=fields,
            extra=extra,
        )

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `chat.completion`."""
        choice: dict[str, Any] = {
            "index": 0,
            "message": answer.to_message(),
            "logprobs": None if ask.top_logprobs is None else {"content": chat_logprobs(answer.scores)},
            "finish_reason": answer.finish_reason(ending.reason),
        }
        reply = {
            "id": f"chatcmpl-{head.id}",
            "object": "chat.completion",
            "created": head.created,
            "model": head.model,
            "choices": [choice],
            "usage": chat_usage(ending),
        }
        if ending.stop is not None:
            choice["stop_reason"] = ending.stop
        if ask.return_token_ids:
            choice["token_ids"] = answer.token_ids
            reply["prompt_token_ids"] = list(head.prompt_ids)
        return encode(reply)

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of `chat.completion.chunk`s and `[DONE]` for `ask`."""
        return ChatEventWriter(ask, head)


def reasoning_effort_arguments(effort: str | None) -> dict[str, Any]:
    """Return OpenAI's reasoning `effort` as templates take it: by that name, and `none` as a switch."""
    if effort is None:
        return {}
    return {"enable_thinking": False} if effort == "none" else {"reasoning_effort": effort}


def _convert_message(message: dict[str, Any], place: str) -> Message:
    if not isinstance(message.get("role"), str):
        raise field_error(f"{place}.role", "must be a string")
    return {name: value for name, value in message.items() if value is not None or name == "content"}


def _convert_tool(tool: dict[str, Any], place: str) -> Tool:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise field_error(place, 'must be {"type": "function", "function": {…}}')
    return build_function_tool(function, f"{place}.function", schema_at="parameters")


def _refuse_unsupported(body: _ChatBody) -> None:
    if body.top_logprobs and not body.logprobs:
        raise field_error("top_logprobs", "needs logprobs: true")
    if body.chat_template is not None:
        raise field_error("chat_template", "is not taken from a request", code="unsupported")
    for name in ("functions", "function_call"):
        if getattr(body, name):
            raise field_error(
                name, "is not supported (deprecated: give tools and tool_choice)", code="unsupported"
            )


_MIN_LOGPROB = -9999.0  # JSON has no -inf; OpenAI writes this


class ChunkWriter(OpenAIErrors):
    """What the streams of chat completions and completions share: each chunk's head, usage, `[DONE]`."""

    def __init__(self, ask: NormalizedRequest, head: ReplyMetadata, reply_id: str, object_type: str) -> None:
        self._ask = ask
        self._head = head
        self._base_fields = {
            "id": reply_id,
            "object": object_type,
            "created": head.created,
            "model": head.model,
        }

    def _is_wanted(self, growth: AnswerDelta) -> bool:
        """Whether `growth` has token ids or log-probabilities, and they are asked for."""
        return bool(
            (growth.token_ids and self._ask.return_token_ids)
            or (growth.scores and self._ask.top_logprobs is not None)
        )

    def _encode_chunk(self, chunk: dict[str, Any]) -> bytes:
        return encode_event({**chunk, "usage": None} if self._ask.include_usage else chunk)

    def _encode_last(self, chunk: dict[str, Any], ending: FinishInfo) -> bytes:
        events = self._encode_chunk(chunk)
        if self._ask.include_usage:
            events += encode_event({**self._base_fields, "choices": [], "usage": chat_usage(ending)})
        return events + DONE_EVENT


class ChatEventWriter(ChunkWriter):
    """Writes the role, what is added to the message, the finish reason, usage if asked, `[DONE]`."""

    def __init__(self, ask: NormalizedRequest, head: ReplyMetadata) -> None:
        super().__init__(ask, head, f"chatcmpl-{head.id}", "chat.completion.chunk")
        self._answer = GeneratedAnswer()

    def encode_start(self) -> bytes:
        chunk = self._build_chunk({"role": "assistant", "content": ""}, AnswerDelta())
        if self._ask.return_token_ids:
            chunk["prompt_token_ids"] = list(self._head.prompt_ids)
        return self._encode_chunk(chunk)

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        delta = MessageDelta()
        for part in growth.parts:
            self._answer.add_part(part)
            delta.add_part(part)
        if not (delta or self._is_wanted(growth)):
            return b""
        return self._encode_chunk(self._build_chunk(_message_delta(delta), growth))

    def encode_end(self, ending: FinishInfo) -> bytes:
        chunk = self._build_chunk({}, AnswerDelta(), self._answer.finish_reason(ending.reason), ending.stop)
        return self._encode_last(chunk, ending)

    def _build_chunk(
        self, delta: dict[str, Any], growth: AnswerDelta, finish: str | None = None, stop: str | None = None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if growth.scores and self._ask.top_logprobs is not None:
            choice["logprobs"] = {"content": chat_logprobs(growth.scores)}
        if growth.token_ids and self._ask.return_token_ids:
            choice["token_ids"] = list(growth.token_ids)
        if stop is not None:
            choice["stop_reason"] = stop
        return {**self._base_fields, "choices": [choice]}


def chat_usage(ending: FinishInfo) -> dict[str, Any]:
    """Build `usage` of chat completions and completions from `ending`."""
    return {
        "prompt_tokens": ending.prompt_tokens,
        "completion_tokens": ending.completion_tokens,
        "total_tokens": ending.prompt_tokens + ending.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": ending.cached_tokens},
    }


def chat_logprobs(scores: Iterable[SampledTokenLogprob]) -> list[dict[str, Any]]:
    """Build `logprobs.content` of a choice, an entry for each of `scores`."""
    return [
        {
            **_logprob_entry(score.token, score.logprob),
            "top_logprobs": [_logprob_entry(token, logprob) for token, logprob in score.top],
        }
        for score in scores
    ]


def finite_logprob(logprob: float) -> float:
    """Return `logprob` as JSON can write it."""
    return max(logprob, _MIN_LOGPROB)


def _logprob_entry(token: bytes, logprob: float) -> dict[str, Any]:
    text = token.decode("utf-8", "replace")
    return {"token": text, "logprob": finite_logprob(logprob), "bytes": list(token)}


def _message_delta(delta: MessageDelta) -> dict[str, Any]:
    added = {
        "content": delta.content,
        "reasoning_content": delta.reasoning,
        "tool_calls": _tool_call_deltas(delta.calls),
    }
    return {name: value for name, value in added.items() if value}


def _tool_call_deltas(calls: Sequence[CallDelta]) -> list[dict[str, Any]]:
    """Yield what is new in each call; id, type and name come once."""
    deltas: list[dict[str, Any]] = []
    for call in calls:
        delta: dict[str, Any] = {"index": call.index, "function": {"arguments": call.arguments}}
        if call.name is not None:
            delta |= {"id": call.id, "type": "function"}
            delta["function"] = {"name": call.name, "arguments": call.arguments}
        deltas.append(delta)
    return deltas
