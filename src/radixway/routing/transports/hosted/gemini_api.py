"""Gemini's `generateContent` and `streamGenerateContent`, for chat completions."""

import mimetypes
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from radixway.core.config import HostedWorkerSettings
from radixway.core.pipeline import CHAT_COMPLETIONS, Request
from radixway.core.pipeline.endpoints import COUNT_CHAT_TOKENS
from radixway.core.pipeline.endpoints.pooling import EMBEDDINGS
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
    read_count,
    read_error_status,
    read_retry_after,
)
from radixway.routing.transports.hosted.chat_body import (
    ChatBody,
    Content,
    MessageForm,
    TextContent,
    ToolCall,
    read_call_id,
    read_text,
    read_tool_calls,
    write_arguments,
)
from radixway.routing.transports.hosted.embeddings import EmbeddingCall

_LENGTH = "MAX_TOKENS"
_FILTERED = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
"""Finish reasons for what may not be said. All others are `stop`."""
_NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's own word for a call whose signature is not at hand, without which Gemini 3 refuses it."""
_KEY_REASONS = frozenset(
    {
        *("API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED"),
        *("CONSUMER_SUSPENDED", "SERVICE_DISABLED"),
    }
)


class GeminiApi(ProviderApi):
    """`POST /models/{model}:generateContent`, `:countTokens` and `:batchEmbedContents`."""

    converted_paths = frozenset({CHAT_COMPLETIONS.path, COUNT_CHAT_TOKENS.path, EMBEDDINGS.path})

    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        headers: Headers = [(b"x-goog-api-key", (key or "").encode())]
        model = model.removeprefix("models/")
        read_answer: AnswerReader | None = None
        if request.endpoint is EMBEDDINGS:
            asked = EmbeddingCall.from_request(request, model)
            method, body = "batchEmbedContents", _build_embed_body(asked)
            read_answer = partial(_read_embeddings, asked)
        else:
            body = build_generate_body(ChatBody(request))
            method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
            if request.endpoint is COUNT_CHAT_TOKENS:
                body.pop("generationConfig", None)
                method, body = "countTokens", {"generateContentRequest": {"model": f"models/{model}", **body}}
                read_answer = _read_tokens
        path = f"/models/{quote(model, safe='')}:{method}"
        return ProviderCall(path, msgspec.json.encode(body), headers, read_answer=read_answer)

    def create_reader(self) -> ReplyReader:
        return GeminiReader()

    def explain_error(self, status: int, body: bytes, headers: Headers) -> ProviderRefusal:
        """Read `{"error": {"code", "message", "status", "details"}}`, or a list of one."""
        return _read_error(decode_answer(body), status, read_retry_after(headers))


def build_generate_body(chat: ChatBody) -> dict[str, Any]:
    """Return the body of `generateContent` for `chat`. Raises BadRequest."""
    chat.require_single_answer()
    system, contents = _GeminiForm().convert_messages(chat)
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    if tools := chat.tools():
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
            for tool in tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
        if (calling := _convert_choice(chat)) is not None:
            body["toolConfig"] = {"functionCallingConfig": calling}
    config: dict[str, Any] = {
        "maxOutputTokens": chat.max_tokens,
        "temperature": chat.number("temperature"),
        "topP": chat.number("top_p"),
        "topK": chat.number("top_k"),
        "seed": chat.number("seed"),
        "presencePenalty": chat.number("presence_penalty"),
        "frequencyPenalty": chat.number("frequency_penalty"),
        "stopSequences": chat.stops or None,
    }
    wants_json, schema = chat.answer_schema()
    if wants_json:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if (budget := chat.reasoning_tokens) is not None:
        config["thinkingConfig"] = {"thinkingBudget": budget, "includeThoughts": budget > 0}
    config = {name: value for name, value in config.items() if value is not None}
    return body | ({"generationConfig": config} if config else {})


class _GeminiForm(MessageForm):
    answerer = "model"
    content = "parts"

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Functions by the ids of their calls."""

    def convert_part(self, part: Content) -> dict[str, Any]:
        if isinstance(part, TextContent):
            return {"text": part.text}
        if part.url is not None:
            kind = mimetypes.guess_type(part.url.partition("?")[0])[0] or "image/jpeg"
            return {"fileData": {"mimeType": kind, "fileUri": part.url}}
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}

    def convert_result(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        call_id, text = read_call_id(message, place), read_text(message.get("content"), place)
        found = decode_answer(text.encode())
        response = found if isinstance(found, dict) else {"result": text}
        return {"functionResponse": {"name": self._names.get(call_id, call_id), "response": response}}

    def convert_answer(self, message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        calls = read_tool_calls(message, place)
        self._names |= {call.id: call.name for call in calls}
        called = [_convert_call(call) for call in calls]
        if called:  # the first of several is signed
            called[0].setdefault("thoughtSignature", _NO_SIGNATURE)
        return self.convert_content(message, place) + called


def _convert_call(call: ToolCall) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
    match call.extra:
        case {"google": {"thought_signature": str(signature)}}:
            part["thoughtSignature"] = signature
    return part


def _convert_choice(chat: ChatBody) -> dict[str, Any] | None:
    match chat.tool_choice():
        case None:
            return None
        case "required":
            return {"mode": "ANY"}
        case {"name": str(name)}:
            return {"mode": "ANY", "allowedFunctionNames": [name]}
        case other:
            return {"mode": str(other).upper()}


def _build_embed_body(asked: EmbeddingCall) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": f"models/{asked.model}"}
    if asked.dimensions is not None:
        fields["outputDimensionality"] = asked.dimensions
    return {"requests": [{**fields, "content": {"parts": [{"text": text}]}} for text in asked.texts]}


def _read_embeddings(asked: EmbeddingCall, answer: Any, headers: Headers) -> dict[str, Any]:
    vectors = [each["values"] for each in answer["embeddings"]]
    return asked.build_answer(vectors, (answer.get("usageMetadata") or {}).get("promptTokenCount"))


def _read_tokens(answer: Any, headers: Headers) -> dict[str, Any]:
    return {"input_tokens": int(answer["totalTokens"])}


class GeminiReader(ReplyReader):
    """Reads `GenerateContentResponse`s: one that is whole, or one after another; they have the same form."""

    def read_reply(self, reply: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what `reply` says."""
        yield from self.read_event(reply)
        self.finish_reason = self.finish_reason or "stop"

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what `event` adds."""
        if "error" in event:
            raise StreamRefusedError(read_error_status(event), _read_error(event, 500, None))
        self.model = str(event.get("modelVersion") or self.model)
        for candidate in (event.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                yield from self._read_part(part)
            if (reason := candidate.get("finishReason")) is not None:
                filtered = "content_filter" if reason in _FILTERED else "stop"
                self._finish("length" if reason == _LENGTH else filtered)
        if (event.get("promptFeedback") or {}).get("blockReason"):
            self._finish("content_filter")
        usage = event.get("usageMetadata") or {}
        self.prompt_tokens = read_count(usage.get("promptTokenCount"), self.prompt_tokens)
        self.cached_tokens = read_count(usage.get("cachedContentTokenCount"), self.cached_tokens)
        self.reasoning_tokens = read_count(usage.get("thoughtsTokenCount"), self.reasoning_tokens)
        if "candidatesTokenCount" in usage or "thoughtsTokenCount" in usage:
            self.completion_tokens = read_count(usage.get("candidatesTokenCount")) + self.reasoning_tokens

    def _read_part(self, part: Mapping[str, Any]) -> Iterator[Delta]:
        match part:
            case {"functionCall": {"name": str(name), **rest}}:
                call_id = str(rest.get("id") or f"call_{secrets.token_hex(8)}")
                delta = self.begin_call(call_id, name, write_arguments(rest.get("args")))
                if isinstance(signature := part.get("thoughtSignature"), str):
                    delta["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": signature}}
                yield delta
            case {"text": str(text), "thought": True} if text:
                yield {"reasoning_content": text}
            case {"text": str(text)} if text and not part.get("thought"):
                yield {"content": text}

    def _finish(self, reason: str) -> None:
        self.finish_reason = "tool_calls" if reason == "stop" and self._call_count else reason


def _read_error(answer: Any, status: int, retry_after_s: float | None) -> ProviderRefusal:
    if isinstance(answer, list) and answer:
        answer = answer[0]
    match answer:
        case {"error": {"message": str(message), **error}}:
            refuses_key = status == 401
            details = error.get("details")
            for detail in details if isinstance(details, list) else ():
                match detail:
                    case {"reason": str(reason)} if reason in _KEY_REASONS:
                        refuses_key = True
                    case {"retryDelay": str(delay)} if delay.removesuffix("s").replace(".", "").isdigit():
                        retry_after_s = retry_after_s or float(delay.removesuffix("s"))
            kind = str(error.get("status") or "api_error")
            return ProviderRefusal(message, kind, kind, None, retry_after_s, refuses_key)
    return ProviderRefusal(f"Gemini answered {status}", retry_after_s=retry_after_s)
