"""Ask a worker for a prompt's tokens: vLLM's `/tokenize`, which SGLang and our engine have too."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
import msgspec

from radixway.routing import Worker
from radixway.routing.worker_tokens import TokenizeRefusedError, TokenizeTimeoutError
from radixway.transports.bounded import ResponseTooLargeError, read_bounded
from radixway.transports.http import HttpTransport


class _TokenizeReply(msgspec.Struct):
    tokens: list[int]
    count: int


_read_answer = msgspec.json.Decoder(_TokenizeReply).decode


class HttpTokenizeCall:
    """An `TokenizeCall` over HTTP."""

    def __init__(self, transport: HttpTransport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def __call__(self, worker: Worker, question: bytes) -> Sequence[int]:
        headers = {"content-type": "application/json"}
        if worker.api_key:
            headers["authorization"] = f"Bearer {worker.api_key}"
        try:
            async with self._transport.kept_session.post(
                worker.url + "/tokenize",
                data=question,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                body = await read_bounded(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ResponseTooLargeError) as error:
            raise TokenizeTimeoutError from error
        if response.status != 200:
            raise TokenizeRefusedError
        try:
            answer = _read_answer(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokenizeRefusedError from error
        if not answer.tokens or len(answer.tokens) != answer.count:
            raise TokenizeRefusedError
        return answer.tokens
