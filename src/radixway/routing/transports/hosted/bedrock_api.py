"""Bedrock's Converse and ConverseStream, for chat completions.

botocore (radixway[hosted]) signs calls without a key, and reads the frames of streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from radixway.core.config import CredentialMissingError, HostedWorkerSettings
from radixway.core.http.server_sent_events import EventBuffer, write_event
from radixway.core.pipeline import CHAT_COMPLETIONS, GatewayError, Request
from radixway.core.pipeline.endpoints import COUNT_CHAT_TOKENS
from radixway.core.pipeline.endpoints.pooling import EMBEDDINGS
from radixway.core.protocols.request import field_error
from radixway.routing.transports.hosted.base import (
    AnswerReader,
    Delta,
    Headers,
    ProviderApi,
    ProviderCall,
    ProviderRefusal,
    ReplyReader,
    StreamRefusedError,
    decode_answer,
    find_header,
    read_count,
    read_retry_after,
)
from radixway.routing.transports.hosted.chat_body import (
    ChatBody,
    Content,
    FileContent,
    MessageForm,
    TextContent,
    read_call_id,
    read_tool_calls,
    write_arguments,
)
from radixway.routing.transports.hosted.claude import STOP_REASONS, convert_thinking, takes_sampling
from radixway.routing.transports.hosted.embeddings import EmbeddingCall

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_STATUSES = {
    "throttlingException": 429,
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "modelStreamErrorException": 424,
    "modelErrorException": 424,
    "modelNotReadyException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
_IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENT_FORMATS = {"application/pdf": "pdf", "text/plain": "txt", "text/csv": "csv", "text/markdown": "md"}
_MISSING = "botocore is not installed: pip install 'radixway[hosted]'"


class BedrockApi(ProviderApi):
    """`POST /model/{model}/converse`, `/count-tokens`, and `/invoke` for embeddings."""

    converted_paths = frozenset({CHAT_COMPLETIONS.path, COUNT_CHAT_TOKENS.path, EMBEDDINGS.path})

    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        """Return the call for `request`, with `key` or signed. Raises BadRequest, CredentialMissingError."""
        read_answer: AnswerReader | None = None
        if request.endpoint is EMBEDDINGS:
            asked = EmbeddingCall.from_request(request, model)
            action, fields = "invoke", _build_embed_body(asked)
            read_answer = partial(_read_embeddings, asked)
        else:
            action = "converse-stream" if request.stream else "converse"
            fields = build_converse_body(ChatBody(request), model)
            if request.endpoint is COUNT_CHAT_TOKENS:
                fields.pop("inferenceConfig", None)
                action, fields = "count-tokens", {"input": {"converse": fields}}
                read_answer = _read_tokens
        path, body = f"/model/{quote(model, safe='')}/{action}", msgspec.json.encode(fields)
        if key is not None:
            headers = [(b"authorization", b"Bearer " + key.encode())]
        else:
            headers = sign_call(settings.url.partition("#")[0] + path, body, settings)
        return ProviderCall(path, body, headers, read_answer=read_answer)

    def create_reader(self) -> ReplyReader:
        return BedrockReader()

    def create_event_buffer(self) -> EventBuffer:
        return FrameBuffer()

    def explain_error(self, status: int, body: bytes, headers: Headers) -> ProviderRefusal:
        """Read `{"message"}`, and the error's type in `x-amzn-errortype`."""
        kind = (find_header(headers, b"x-amzn-errortype") or b"api_error").decode("latin-1").partition(":")[0]
        answer = decode_answer(body)
        found = answer.get("message", answer.get("Message")) if isinstance(answer, dict) else None
        message = found if isinstance(found, str) else f"Bedrock answered {status}"
        # A wrong key is a 403 too, beside models that the account may not use.
        refuses_key = status == 401 or (status == 403 and "model" not in message.lower())
        return ProviderRefusal(message, kind, kind, None, read_retry_after(headers), refuses_key)


@lru_cache(16)
def _find_credentials(profile: str | None) -> Credentials:
    """Return AWS's credentials, which renew themselves. Raises CredentialMissingError."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise CredentialMissingError(_MISSING) from None
    try:
        found: Credentials | None = Session(profile=profile).get_credentials()
    except BotoCoreError as error:
        raise CredentialMissingError(f"AWS's credentials: {error}") from None
    if found is None:
        raise CredentialMissingError("AWS has no credentials here: give api_key_env, a profile, or a role")
    return found


def sign_call(url: str, body: bytes, settings: HostedWorkerSettings) -> Headers:
    """Return the headers that sign a POST of `body` to `url`. Raises CredentialMissingError."""
    credentials = _find_credentials(settings.profile)
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        frozen = credentials.get_frozen_credentials()  # which may ask for new ones
    except (BotoCoreError, ClientError) as error:
        raise CredentialMissingError(f"AWS's credentials: {error}") from None
    signed = AWSRequest("POST", url, {"content-type": "application/json"}, data=body)
    SigV4Auth(frozen, "bedrock", settings.region).add_auth(signed)
    own = {"content-type", "host"}
    return [
        (name.lower().encode(), str(value).encode())
        for name, value in signed.headers.items()
        if name.lower() not in own
    ]


def build_converse_body(chat: ChatBody, model: str) -> dict[str, Any]:
    """Return the body of Converse for `chat`, without its `model`. Raises BadRequest."""
    chat.require_single_answer()
    wants_json, schema = chat.answer_schema()
    system, messages = _ConverseForm().convert_messages(chat)
    if wants_json:
        told = f" that follows this schema: {msgspec.json.encode(schema).decode()}" if schema else ""
        system.append({"text": f"Answer with one JSON object{told} and nothing else."})
    body: dict[str, Any] = {"messages": messages}
    if system:
        body["system"] = system
    more = convert_thinking(chat, model)
    inference: dict[str, Any] = {"maxTokens": chat.max_tokens, "stopSequences": chat.stops or None}
    budget = more.get("thinking", {}).get("budget_tokens")
    if budget is not None:
        inference["maxTokens"] = max(chat.max_tokens or 4096, budget + 1024)
    elif takes_sampling(model):  # the API refuses them beside a budget
        inference |= {"temperature": chat.number("temperature"), "topP": chat.number("top_p")}
        if (top_k := chat.number("top_k")) is not None and "claude" in model:  # others name it otherwise
            more["top_k"] = top_k
    if given := {name: value for name, value in inference.items() if value is not None}:
        body["inferenceConfig"] = given
    if more:
        body["additionalModelRequestFields"] = more
    if (tools := _convert_tools(chat)) is not None:
        body["toolConfig"] = tools
    return body


def _convert_tools(chat: ChatBody) -> dict[str, Any] | None:
    tools = [
        {
            "toolSpec": {"name": tool.name, "inputSchema": {"json": tool.schema}}
            | ({"description": tool.description} if tool.description else {})
        }
        for tool in chat.tools()
    ]
    if not tools:
        return None
    match chat.tool_choice():
        case "required":
            return {"tools": tools, "toolChoice": {"any": {}}}
        case {"name": str(name)}:
            return {"tools": tools, "toolChoice": {"tool": {"name": name}}}
        case "none":
            if not any(message.get("tool_calls") for _, _, message in chat.messages()):
                return None  # it has no choice that forbids calls, but wants the tools of calls made before
    return {"tools": tools}


class _ConverseForm(MessageForm):
    def convert_part(self, part: Content) -> dict[str, Any]:
        return {"text": part.text} if isinstance(part, TextContent) else _convert_file(part)

    def convert_result(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        content = self.convert_content(message, place) or [{"text": "(empty)"}]
        return {"toolResult": {"toolUseId": read_call_id(message, place), "content": content}}

    def convert_answer(self, message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        thoughts = message.get("thinking_blocks")
        for block in thoughts if isinstance(thoughts, list) else ():
            match block:
                case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
                    thought = {"text": text, "signature": signature}
                    blocks.append({"reasoningContent": {"reasoningText": thought}})
                case {"type": "redacted_thinking", "data": str(data)}:
                    blocks.append({"reasoningContent": {"redactedContent": data}})
        blocks += self.convert_content(message, place)
        for call in read_tool_calls(message, place):
            blocks.append({"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}})
        return blocks


def _convert_file(part: FileContent) -> dict[str, Any]:
    if part.data is None:
        why = "must be a data: URL: Bedrock takes images as bytes alone"
        raise field_error(f"{part.place}.image_url", why, code="unsupported_content")
    source = {"source": {"bytes": part.data}}
    if (kind := _IMAGE_FORMATS.get(part.media_type)) is not None:
        return {"image": {"format": kind, **source}}
    if (kind := _DOCUMENT_FORMATS.get(part.media_type)) is not None:
        name = (
            "".join(sign if sign.isalnum() or sign in " -()[]" else "-" for sign in part.name) or "document"
        )
        return {"document": {"format": kind, "name": name, **source}}
    raise field_error(part.place, f"{part.media_type} is not supported", code="unsupported_content")


def _build_embed_body(asked: EmbeddingCall) -> dict[str, Any]:
    """Return the body of InvokeModel for embeddings, which is the model's own. Raises BadBodyError."""
    texts, dimensions = asked.texts, asked.dimensions
    if "titan-embed-text" in asked.model:
        if len(texts) != 1:
            raise field_error("input", "must be one text: Titan takes one in a call", code="unsupported")
        return {"inputText": texts[0]} | ({"dimensions": dimensions} if dimensions is not None else {})
    if "cohere.embed" in asked.model:
        kind = asked.input_type or "search_document"
        body = {"texts": texts, "input_type": kind, "embedding_types": ["float"]}
        return body | ({"output_dimension": dimensions} if dimensions is not None else {})
    raise field_error("model", "must be Titan Text or Cohere Embed for embeddings", code="unsupported")


def _read_embeddings(asked: EmbeddingCall, answer: Any, headers: Headers) -> dict[str, Any]:
    if "embedding" in answer:
        return asked.build_answer([answer["embedding"]], answer.get("inputTextTokenCount"))
    found = answer["embeddings"]
    vectors = found["float"] if isinstance(found, dict) else found
    counted = find_header(headers, b"x-amzn-bedrock-input-token-count") or b""
    return asked.build_answer(vectors, int(counted) if counted.isdigit() else None)


def _read_tokens(answer: Any, headers: Headers) -> dict[str, Any]:
    return {"input_tokens": int(answer["inputTokens"])}


class FrameBuffer(EventBuffer):
    """Makes server-sent events of AWS's frames: a frame's JSON, with its event's name as `type`."""

    def __init__(self) -> None:
        """Raises GatewayError (501) without botocore."""
        super().__init__()
        try:
            from botocore.eventstream import EventStreamBuffer
        except ImportError:
            raise GatewayError(_MISSING, status=501, code="package_missing") from None
        self._frames = EventStreamBuffer()

    def take_events(self, chunk: bytes) -> bytes:
        """Add `chunk`; return the events of the frames that are whole. One that is damaged is an error."""
        from botocore.eventstream import ParserError

        events = b""
        try:
            self._frames.add_data(chunk)
            for frame in self._frames:
                headers = frame.headers
                kind = (
                    headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code")
                )
                payload = decode_answer(frame.payload)
                fields = payload if isinstance(payload, dict) else {}
                is_event = headers.get(":message-type", "event") == "event"
                events += write_event(
                    msgspec.json.encode({**fields, "type": kind} | ({} if is_event else {"is_error": True}))
                )
        except ParserError as error:
            message = f"a frame cannot be read: {error}"
            failure = {"type": "internalServerException", "is_error": True, "message": message}
            events += write_event(msgspec.json.encode(failure))
        return events


class BedrockReader(ReplyReader):
    """Reads Converse's answers, whole or by their events."""

    def __init__(self) -> None:
        super().__init__()
        self._thought: list[str] = []
        self._signature = ""

    def read_reply(self, reply: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what `reply` says."""
        for block in reply["output"]["message"]["content"]:
            match block:
                case {"text": str(text)}:
                    yield {"content": text}
                case {"toolUse": {"toolUseId": str(call_id), "name": str(name), "input": given}}:
                    yield self.begin_call(call_id, name, write_arguments(given))
                case {"reasoningContent": {"reasoningText": {"text": str(text), **rest}}}:
                    yield {"reasoning_content": text} | _thinking_block(
                        text, str(rest.get("signature") or "")
                    )
                case {"reasoningContent": {"redactedContent": str(data)}}:
                    yield {"thinking_blocks": [{"type": "redacted_thinking", "data": data}]}
        self.finish_reason = STOP_REASONS.get(str(reply.get("stopReason")), "stop")
        self._read_usage(reply.get("usage") or {})

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what `event` adds."""
        if event.get("is_error"):
            kind = str(event.get("type"))
            refusal = ProviderRefusal(str(event.get("message") or kind), kind, kind)
            raise StreamRefusedError(_STATUSES.get(kind, 500), refusal)
        match event:
            case {"start": {"toolUse": {"toolUseId": str(call_id), "name": str(name)}}}:
                yield self.begin_call(call_id, name)
            case {"type": "contentBlockDelta", "delta": delta}:
                yield from self._read_delta(delta)
            case {"type": "contentBlockStop"} if self._thought:
                yield _thinking_block("".join(self._thought), self._signature)
                self._thought, self._signature = [], ""
            case {"type": "messageStop", "stopReason": str(reason)}:
                self.finish_reason = STOP_REASONS.get(reason, "stop")
            case {"type": "metadata", "usage": dict(usage)}:
                self._read_usage(usage)

    def _read_delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        match delta:
            case {"text": str(text)}:
                yield {"content": text}
            case {"toolUse": {"input": str(text)}} if text:
                yield self.continue_call(text)
            case {"reasoningContent": {"text": str(text)}}:
                self._thought.append(text)
                yield {"reasoning_content": text}
            case {"reasoningContent": {"signature": str(signature)}}:
                self._signature = signature
            case {"reasoningContent": {"redactedContent": str(data)}}:
                yield {"thinking_blocks": [{"type": "redacted_thinking", "data": data}]}

    def _read_usage(self, usage: Mapping[str, Any]) -> None:
        self.cached_tokens = read_count(usage.get("cacheReadInputTokens"))
        self.cache_write_tokens = read_count(usage.get("cacheWriteInputTokens"))
        read = read_count(usage.get("inputTokens"))
        self.prompt_tokens = read + self.cached_tokens + self.cache_write_tokens
        self.completion_tokens = read_count(usage.get("outputTokens"))


def _thinking_block(text: str, signature: str) -> Delta:
    """Return a thought as it is sent back; one that is not signed need not be."""
    if not signature:
        return {}
    return {"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": signature}]}
