"""vLLM and SGLang as their HTTP interfaces are, with a model that says one thing. A token is a word.

Written after vLLM's `entrypoints/openai` and `entrypoints/serve/tokenize/protocol.py` (0.15) and SGLang's
`srt/entrypoints/openai/protocol.py` (0.5): what they send, field by field, and what they refuse.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from support.scripted_worker import Exchange, scripted_worker

Kind = Literal["vllm", "sglang"]
SAYS = ("Gr", "üße", "!")
BETWEEN = 4
"""Tokens that the chat template puts around a turn."""


@dataclass
class ModelledEngine:
    kind: Kind
    context: int = 64
    url: str = ""
    generated: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of requests for answers."""
    tokenized: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path == "/tokenize":
            await self._tokenize(exchange)
        elif exchange.path == "/v1/chat/completions":
            await self._chat(exchange)
        else:
            await exchange.reply(404, b'{"detail":"Not Found"}')

    def prompt_tokens(self, messages: list[dict[str, str]]) -> int:
        return sum(len(each["content"].split()) + BETWEEN for each in messages) + 2

    async def _tokenize(self, exchange: Exchange) -> None:
        self.tokenized += 1
        body = exchange.json()
        if "messages" in body and self.kind == "sglang":
            error = {"object": "error", "message": "1 validation error: prompt Field required", "code": 400}
            await self._json(exchange, error | {"type": "BadRequestError", "param": None}, status=400)
            return
        count = self.prompt_tokens(body["messages"]) if "messages" in body else self._words(body["prompt"])
        told = {"count": count, "max_model_len": self.context, "tokens": list(range(count))}
        await self._json(exchange, told | ({"token_strs": None} if self.kind == "vllm" else {}))

    def _words(self, prompt: str) -> int:
        return len(prompt.replace("<|im_start|>", " <s> ").replace("<|im_end|>", " <e> ").split())

    async def _chat(self, exchange: Exchange) -> None:
        body = exchange.json()
        self.generated.append(body)
        used = self.prompt_tokens(body["messages"])
        if used + body["max_tokens"] > self.context:
            message = f"This model's maximum context length is {self.context} tokens."
            error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
            await self._json(exchange, {"error": error} if self.kind == "vllm" else error, status=400)
            return
        await exchange.begin_stream()
        await self._chunk(exchange, {"role": "assistant", "content": ""}, None)
        for text in SAYS:
            await self._chunk(exchange, {"content": text}, None)
        await self._chunk(exchange, {"content": ""}, "stop")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async def _chunk(self, exchange: Exchange, delta: dict[str, Any], reason: str | None) -> None:
        if self.kind == "sglang":
            empty = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
            delta = empty | delta | ({"content": None} if reason else {})
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        choice |= {"stop_reason": None} if self.kind == "vllm" else {"matched_stop": 2 if reason else None}
        event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763750000, "model": "m"}
        event |= {"choices": [choice]} | ({"usage": None} if self.kind == "sglang" else {})
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def _json(self, exchange: Exchange, body: Any, status: int = 200) -> None:
        await exchange.reply(status, json.dumps(body).encode())


@asynccontextmanager
async def modelled_engine(kind: Kind) -> AsyncIterator[ModelledEngine]:
    engine = ModelledEngine(kind)
    async with scripted_worker(engine, tokenizes=True, context=engine.context) as server:
        engine.url = server.url
        yield engine
