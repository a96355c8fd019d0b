"""Ask a worker for a prompt's tokens: vLLM's `/tokenize`, which SGLang and our engine have too."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
import msgspec

from radixway.routing import Worker
from radixway.routing.worker_tokens import Refused, Silent
from radixway.transports.bounded import AnswerTooLarge, read_at_most
from radixway.transports.http import HttpTransport


class _Answer(msgspec.Struct):
    tokens: list[int]
    count: int


_read_answer = msgspec.json.Decoder(_Answer).decode


class HttpTokenize:
    """An `AskWorker` over HTTP."""

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
                body = await read_at_most(response)
        except (aiohttp.ClientError, TimeoutError, OSError, AnswerTooLarge) as error:
            raise Silent from error
        if response.status != 200:
            raise Refused
        try:
            answer = _read_answer(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refused from error
        if not answer.tokens or len(answer.tokens) != answer.count:
            raise Refused
        return answer.tokens
