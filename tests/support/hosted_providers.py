"""Providers of hosted models on loopback: real HTTP, and strict as they are.

What they are sent and what they answer is checked by the types of the providers' own SDKs
(`hosted_types.py`). What these do not say comes from the providers' documentation, and is refused as they
refuse it: a wrong key, turns out of order, a thought without its signature.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from support.hosted_shapes import (
    SIGNATURE,
    Scene,
    anthropic_events,
    anthropic_reply,
    bedrock_events,
    bedrock_reply,
    gemini_replies,
    openai_events,
    openai_reply,
    write_frame,
)
from support.hosted_types import (
    check_count,
    check_embedding,
    check_event,
    check_reply,
    check_request,
)

KEY = "sk-of-a-provider"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class HostedProvider:
    """One provider's API at `url`."""

    kind: str
    url: str = ""
    scene: Scene = field(default_factory=Scene)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hold: asyncio.Event | None = None
    mistakes: list[AssertionError] = field(default_factory=list)
    """Requests and answers that the provider's SDK would not take."""

    def worker(self, **more: Any) -> dict[str, Any]:
        """Its entry under `workers`."""
        base = self.url + ("/v1" if self.kind in ("openai", "openai-compatible") else "")
        given = {
            "provider": self.kind,
            "base_url": base,
            "api_key": KEY,
            "models": {"m": f"{self.kind}-model"},
        }
        return given | ({"region": "eu-west-1"} if self.kind == "bedrock" else {}) | more


class RefusedError(Exception):
    """The API's error for a request that it does not take."""


def refuse(message: str, *, when: bool = True) -> None:
    if when:
        raise RefusedError(message)


def check_anthropic(body: dict[str, Any], headers: Any) -> None:
    refuse("anthropic-version: header is required", when="anthropic-version" not in headers)
    turns = body["messages"]
    refuse("first message must use the user role", when=turns[0]["role"] != "user")
    open_calls: set[str] = set()
    for turn in turns:
        if isinstance(turn["content"], str):
            turn["content"] = [{"type": "text", "text": turn["content"]}]
        refuse(f"unexpected role {turn['role']}", when=turn["role"] not in ("user", "assistant"))
        refuse("content must be non-empty", when=not turn["content"])
        results = {block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"}
        refuse("tool_use ids were found without tool_result blocks", when=results != open_calls)
        for block in turn["content"]:
            refuse("text content blocks must be non-empty", when=block.get("text", "x") == "")
            if block["type"] == "image" and block["source"]["type"] == "base64":
                refuse("media_type", when=block["source"]["media_type"] not in ("image/png", "image/jpeg"))
        open_calls = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}
    for tool in body.get("tools", ()):
        refuse("tools.0.input_schema.type: Field required", when=tool["input_schema"].get("type") != "object")
    if _has_budget(body):
        thinking = body["thinking"]
        refuse(
            "max_tokens must be greater than budget_tokens",
            when=body["max_tokens"] <= thinking["budget_tokens"],
        )
        refuse("temperature may only be set to 1 when thinking is enabled", when="temperature" in body)
        last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), None)
        if last and any(block["type"] == "tool_use" for block in last["content"]):
            signed = last["content"][0]
            refuse("expected thinking", when=signed.get("signature") != SIGNATURE)
    refuse("temperature: at most 1", when=body.get("temperature", 0) > 1)
    sampling = body.keys() & {"temperature", "top_p", "top_k"}
    refuse(f"{sampling}: not permitted", when=headers["anthropic-version"] != "2023-06-01" and bool(sampling))


def _has_budget(fields: dict[str, Any]) -> bool:
    return fields.get("thinking", {}).get("type") == "enabled"


def check_gemini(body: dict[str, Any], headers: Any) -> None:
    called: list[str] = []
    for turn in body["contents"]:
        refuse("Please use a valid role: user, model.", when=turn["role"] not in ("user", "model"))
        results = [part["functionResponse"]["name"] for part in turn["parts"] if "functionResponse" in part]
        refuse("number of function response parts is not equal", when=bool(results) and results != called)
        called = [part["functionCall"]["name"] for part in turn["parts"] if "functionCall" in part]
        signed = [part for part in turn["parts"] if "functionCall" in part][:1]
        refuse(
            "Function call is missing a thought_signature",
            when=any("thoughtSignature" not in p for p in signed),
        )


def check_bedrock(body: dict[str, Any], headers: Any) -> None:
    before = "assistant"
    for turn in body["messages"]:
        refuse("A conversation must alternate between user and assistant roles", when=turn["role"] == before)
        before = turn["role"]
        for block in turn["content"]:
            refuse("toolConfig must be defined", when="toolUse" in block and "toolConfig" not in body)


CHECKS: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "bedrock": check_bedrock,
}


def _has_key(kind: str, headers: Any) -> bool:
    match kind:
        case "anthropic":
            return headers.get("x-api-key") == KEY
        case "gemini":
            return headers.get("x-goog-api-key") == KEY
        case "azure":
            return headers.get("api-key") == KEY
        case "bedrock" if headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential="):
            return True
    return headers.get("authorization") == f"Bearer {KEY}"


def error_body(kind: str, status: int, message: str, name: str) -> Any:
    """An error in the provider's own shape."""
    match kind:
        case "anthropic":
            return {"type": "error", "error": {"type": name, "message": message}, "request_id": "req_1"}
        case "gemini":
            return {"error": {"code": status, "message": message, "status": name}}
        case "bedrock":
            return {"message": message}
    return {"error": {"message": message, "type": name, "param": None, "code": name}}


@asynccontextmanager
async def hosted_provider(kind: str) -> AsyncIterator[HostedProvider]:
    """The provider `kind` on loopback."""
    provider = HostedProvider(kind)

    async def answer(request: web.Request) -> web.StreamResponse:
        provider.paths.append(request.raw_path)
        provider.headers.append(dict(request.headers))
        body = await request.json()
        provider.bodies.append(body)
        if provider.hold is not None:
            await provider.hold.wait()
        if not _has_key(kind, request.headers):
            return web.json_response(
                error_body(kind, 401, "invalid x-api-key", "authentication_error"), status=401
            )
        scene = provider.scene
        if scene.refusals:
            status, told, headers = scene.refusals.pop(0)
            if isinstance(told, bytes):
                return web.Response(body=told, status=status, headers=headers)
            return web.json_response(told, status=status, headers=headers)
        try:
            if request.path.endswith(("/count_tokens", "/count-tokens", ":countTokens")):
                check_count(kind, body)
            elif not request.path.endswith(
                ("/embeddings", "/responses", "/input_tokens", "/invoke", "Contents")
            ):
                check_request(SDKS[kind], body)
                if kind in CHECKS:
                    CHECKS[kind](body, request.headers)
            return await ANSWERS[SDKS[kind]](request, body, scene)
        except RefusedError as refusal:
            return web.json_response(error_body(kind, 400, str(refusal), "invalid_request_error"), status=400)
        except AssertionError as mistake:
            provider.mistakes.append(mistake)
            raise

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
        assert provider.mistakes == []
    finally:
        await runner.cleanup()


def _dump(event: Any) -> str:
    return json.dumps(event, ensure_ascii=False)


async def _stream(
    request: web.Request, scene: Scene, pieces: list[bytes], kind: str = "text/event-stream"
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": kind})
    await response.prepare(request)
    for piece in pieces:
        if scene.goes_on is not None and piece is pieces[-1]:
            try:
                await scene.goes_on.wait()
            except asyncio.CancelledError:
                scene.left.set()
                raise
        cut = next((at + 1 for at, byte in enumerate(piece) if byte > 127), len(piece) // 2)
        await response.write(piece[:cut])  # in the middle of a character, where it has one of several bytes
        await asyncio.sleep(0)
        await response.write(piece[cut:])
    return response


def _embed_at_bedrock(model: str, body: dict[str, Any]) -> web.Response:
    """What Titan and Cohere Embed take and answer, by AWS's user guide: InvokeModel has no types for it."""
    if model == "amazon.titan-embed-text-v2:0":
        assert isinstance(body.pop("inputText"), str)
        assert body.keys() <= {"dimensions", "normalize", "embeddingTypes"}
        return web.json_response({"embedding": [0.5, 0], "inputTextTokenCount": 7})
    assert model == "eu.cohere.embed-v4:0"
    texts = body.pop("texts")
    refuse("texts: at most 96", when=len(texts) > 96)
    assert body.pop("input_type") in ("search_document", "search_query", "classification", "clustering")
    assert body.keys() <= {"embedding_types", "output_dimension", "truncate"}
    told = {"id": "1", "texts": texts, "response_type": "embeddings_by_type"}
    vectors = [[0.5, at] for at in range(len(texts))]
    headers = {"x-amzn-bedrock-input-token-count": "7"}
    return web.json_response(told | {"embeddings": {"float": vectors}}, headers=headers)


def _whole(kind: str, reply: dict[str, Any], operation: str = "Converse") -> web.Response:
    check_reply(kind, reply, operation)
    return web.json_response(reply)


def _checked(kind: str, events: list[Any], scene: Scene) -> list[Any]:
    for event in events if scene.breaks_with is None else events[:-1]:
        check_event(kind, event)
    return events


async def _answer_anthropic(request: web.Request, body: dict[str, Any], scene: Scene) -> web.StreamResponse:
    if request.path == "/v1/messages/count_tokens":
        return web.json_response({"input_tokens": 129})
    if request.path != "/v1/messages":
        return web.json_response(error_body("anthropic", 404, "Not Found", "not_found_error"), status=404)
    if not body.get("stream"):
        return _whole("anthropic", anthropic_reply(scene))
    events = [
        f"event: {e['type']}\ndata: {_dump(e)}\n\n".encode()
        for e in _checked("anthropic", anthropic_events(scene), scene)
    ]
    return await _stream(request, scene, events)


async def _answer_gemini(request: web.Request, body: dict[str, Any], scene: Scene) -> web.StreamResponse:
    replies = gemini_replies(scene)
    if request.path.endswith(":streamGenerateContent") and request.query.get("alt") == "sse":
        events = _checked("gemini", replies, scene)
        return await _stream(request, scene, [f"data: {_dump(event)}\r\n\r\n".encode() for event in events])
    if request.path.endswith(":countTokens"):
        return web.json_response({"totalTokens": 129})
    if request.path.endswith(":batchEmbedContents"):
        told = {"embeddings": [{"values": [0.5, at]} for at in range(len(body["requests"]))]}
        check_embedding(body, told)
        return web.json_response(told)
    if not request.path.endswith(":generateContent"):
        return web.json_response(error_body("gemini", 404, "no such method", "NOT_FOUND"), status=404)
    whole = replies[-1]
    parts = [part for each in replies for part in each["candidates"][0].get("content", {}).get("parts", ())]
    whole["candidates"][0]["content"] = {"role": "model", "parts": parts}
    return _whole("gemini", whole)


async def _answer_bedrock(request: web.Request, body: dict[str, Any], scene: Scene) -> web.StreamResponse:
    model, _, action = unquote(request.raw_path).removeprefix("/model/").rpartition("/")
    if action == "count-tokens":
        return _whole("bedrock", {"inputTokens": 129}, "CountTokens")
    if action == "invoke":
        return _embed_at_bedrock(model, body)
    if not model or action not in ("converse", "converse-stream"):
        return web.json_response({"message": "unknown operation"}, status=404)
    if action == "converse":
        return _whole("bedrock", bedrock_reply(scene))
    frames = _checked("bedrock", [write_frame(*event) for event in bedrock_events(scene)], scene)
    return await _stream(request, scene, frames, "application/vnd.amazon.eventstream")


async def _answer_openai(request: web.Request, body: dict[str, Any], scene: Scene) -> web.StreamResponse:
    if request.path.endswith("/embeddings"):
        data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return web.json_response({"object": "list", "data": data, "model": "e", "usage": usage})
    if request.path.endswith("/responses/input_tokens"):
        return web.json_response({"object": "response.input_tokens", "input_tokens": 129})
    if not request.path.endswith("/chat/completions"):
        return web.json_response(error_body("openai", 404, "unknown path", "not_found"), status=404)
    if not body.get("stream"):
        return _whole("openai", openai_reply(scene))
    with_usage = (body.get("stream_options") or {}).get("include_usage") is True
    told = _checked("openai", openai_events(scene, with_usage=with_usage), scene)
    events = [f"data: {_dump(event)}\n\n".encode() for event in told]
    return await _stream(request, scene, [*events, b"data: [DONE]\n\n"])


Answer = Callable[[web.Request, dict[str, Any], Scene], Awaitable[web.StreamResponse]]
ANSWERS: dict[str, Answer] = {
    "anthropic": _answer_anthropic,
    "gemini": _answer_gemini,
    "bedrock": _answer_bedrock,
    "openai": _answer_openai,
}
SDKS = {kind: kind for kind in ANSWERS} | {"azure": "openai", "openai-compatible": "openai"}
"""Whose types are a provider's."""
