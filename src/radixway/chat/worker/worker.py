"""One connection to a chat server, several answers at once, and a new connection when it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from radixway.chat.worker import machine
from radixway.chat.worker.engines import Engine, EngineError
from radixway.chat.worker.gpus import Gpus
from radixway.chat.worker.lengths import Lengths
from radixway.chat.worker.prompts import PromptFormat, StopFilter, Turn, stops, turns_of
from radixway.chat.worker.safety import Safety

log = logging.getLogger(__name__)

_decode = msgspec.json.Decoder().decode
_BATCH, _BATCH_S = 16, 0.015
_LONGEST_WAIT_S = 30.0


class ServerRefused(Exception):
    """The server does not let this worker in; trying again does not help."""


@dataclass(frozen=True, slots=True)
class Serves:
    """What the server is told that this worker serves."""

    model_id: str
    max_input_length: int
    max_total_length: int
    quantized: bool = False
    at_once: int = 1


class Worker:
    """Works while `run()`. Belongs to one event loop."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        api_key: str,
        engine: Engine,
        serves: Serves,
        *,
        form: PromptFormat | None = None,
        safety: Safety | None = None,
        first_wait_s: float = 0.5,
    ) -> None:
        """`server`: `ws://…`. `first_wait_s`: till a broken connection is made again; doubled each time."""
        self._session = session
        self._url = server if "/work" in server else f"{server.rstrip('/')}/workers/work"
        self._headers = {"X-API-Key": api_key, "X-Protocol-Version": "1"}
        self._engine = engine
        self._serves = serves
        self._form: PromptFormat = form or engine.formats[0]
        self._lengths = Lengths(engine, self._form, serves.max_input_length, serves.max_total_length)
        self._gpus = Gpus()
        self._safety = safety
        self._first_wait_s = first_wait_s
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._draining = asyncio.Event()
        self._extensions: frozenset[str] = frozenset()
        self._processed = 0

    def drain(self) -> None:
        """Take no more jobs, finish those under way, and end."""
        self._draining.set()

    async def run(self) -> None:
        """Until it has drained. Raises ServerRefused."""
        wait_s = self._first_wait_s
        while not self._draining.is_set():
            try:
                async with self._session.ws_connect(self._url, headers=self._headers) as socket:
                    await self._say(socket, await self._info())
                    wait_s = self._first_wait_s
                    await self._serve(socket)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("the server is not there: %s", type(error).__name__)
            if not self._draining.is_set():
                await _within(self._draining, wait_s * random.uniform(0.5, 1.0))
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        reading = asyncio.create_task(self._read(socket))
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({reading, draining}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                if "drain" in self._extensions:
                    await self._say(socket, {"response_type": "drain"})
                while self._jobs and not reading.done():
                    under_way: set[asyncio.Task[Any]] = {reading, *self._jobs.values()}
                    await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            for task in (reading, draining, *self._jobs.values()):
                task.cancel()
            await asyncio.gather(reading, draining, *self._jobs.values(), return_exceptions=True)
            self._jobs.clear()
            self._extensions = frozenset()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            frame = _decode(message.data)
            kind = frame.get("request_type")
            if kind == "work":
                if (
                    not self._draining.is_set() or "drain" in self._extensions
                ):  # else it goes back as we leave
                    self._begin(socket, frame)
            elif kind == "ping":
                pong = {"request_id": frame["id"], "response_type": "pong", "metrics": await self._metrics()}
                await self._say(socket, pong)
            elif kind == "cancel" and (job := self._jobs.get(frame.get("request_id", ""))) is not None:
                job.cancel()
            elif kind == "extensions":
                self._extensions = frozenset(frame.get("extensions") or ())
            elif kind == "terminate":
                self.drain()
            elif kind in ("wrong_api_key", "upgrade_protocol"):
                raise ServerRefused(f"the server says {kind}")
            elif kind == "error":
                log.warning("the server says: %s", str(frame.get("error"))[:500])

    def _begin(self, socket: aiohttp.ClientWebSocketResponse, work: dict[str, Any]) -> None:
        request_id = work["id"]
        self._jobs[request_id] = task = asyncio.create_task(self._answer(socket, work))
        task.add_done_callback(lambda _: self._jobs.pop(request_id, None))

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse, work: dict[str, Any]) -> None:
        """One job: what goes wrong with it is told, and touches no other."""
        request_id = work["id"]
        try:
            parameters = work.get("parameters") or {}
            wished = _wished(parameters)
            turns, used = await self._lengths.fitted(turns_of(work), wished)
            safe = await self._made_safe(socket, work, turns)
            if safe is not turns:
                turns, used = await self._lengths.fitted(safe, wished)
            parameters = self._clamped(parameters, used)
            text, reason = await self._generate(socket, request_id, turns, parameters)
            self._processed += 1
            end = {
                "text": text,
                "finish_reason": reason,
                "metrics": await self._metrics(),
                "used_plugin": None,
            }
            await self._say(socket, {"request_id": request_id, "response_type": "generated_text", **end})
        except EngineError as error:
            await self._fail(socket, request_id, str(error))
        except (KeyError, TypeError, ValueError) as error:
            log.exception("a job could not be read")
            await self._fail(socket, request_id, f"the job cannot be read ({type(error).__name__})")

    async def _generate(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        request_id: str,
        turns: list[Turn],
        parameters: dict[str, Any],
    ) -> tuple[str, str]:
        """Pass the words on in batches; returns all of them, and why they end."""
        batch = _Batch(self, socket, request_id)
        sequences = stops(self._form)
        stopping, reason, told, whole, broken = StopFilter(sequences), "eos_token", "", None, False
        async for said in self._engine.generate(turns, self._form, parameters, sequences):
            broken = broken or "\ufffd" in said.text  # half a character: the whole text has all of it
            text = "" if said.special or broken else stopping.push(said.text)
            told += text
            await batch.add(text, said.token_id, said.log_prob)
            whole = said.whole if whole is None else whole
            reason = said.finish_reason or reason
            if stopping.stopped:
                reason = "stop_sequence"
                break
        rest = stopping.rest()
        if broken and whole is not None and whole.startswith(told):
            rest = StopFilter(sequences).push(whole)[len(told) :]
        await batch.add(rest, 0, None)
        await batch.flush()
        return told + rest, reason

    def _clamped(self, parameters: dict[str, Any], used: int) -> dict[str, Any]:
        """No more new tokens than there is room for after the prompt."""
        room = max(self._serves.max_total_length - used - 1, 1)
        sampling = dict(parameters.get("sampling_parameters") or {})
        sampling["max_new_tokens"] = min(_wished(parameters), room)
        return parameters | {"sampling_parameters": sampling}

    async def _made_safe(
        self, socket: aiohttp.ClientWebSocketResponse, work: dict[str, Any], turns: list[Turn]
    ) -> list[Turn]:
        level = int((work.get("safety_parameters") or {}).get("level") or 0)
        if self._safety is None or level < 1 or not turns:
            return turns
        try:
            verdict = await self._safety.judge(turns[-1].text, level)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EngineError(f"the safety service does not answer: {type(error).__name__}") from error
        if not verdict.triggers(level):
            return turns
        safe = Turn(turns[-1].role, verdict.make_safe(turns[-1].text))
        told = {"safe_prompt": safe.text, "safety_parameters": {"level": level}}
        told |= {"safety_label": verdict.label, "safety_rots": verdict.rots}
        await self._say(socket, {"request_id": work["id"], "response_type": "safe_prompt", **told})
        return [*turns[:-1], safe]

    async def _fail(self, socket: aiohttp.ClientWebSocketResponse, request_id: str, error: str) -> None:
        log.warning("a job failed: %s", error.partition(":")[0])  # the rest may quote a prompt
        told = {"error": error, "metrics": await self._metrics()}
        await self._say(socket, {"request_id": request_id, "response_type": "error", **told})

    async def _say(self, socket: aiohttp.ClientWebSocketResponse, frame: dict[str, Any]) -> None:
        await socket.send_str(msgspec.json.encode(frame).decode())

    async def _metrics(self) -> dict[str, Any]:
        return machine.metrics(await self._gpus.now()) | {"requests_processed": self._processed}

    async def _info(self) -> dict[str, Any]:
        serves = self._serves
        shape = {
            "model_id": serves.model_id,
            "max_input_length": serves.max_input_length,
            "max_total_length": serves.max_total_length,
            "quantized": serves.quantized,
        }
        config = {"model_config": shape, "max_parallel_requests": serves.at_once}
        hardware = machine.hardware(await self._gpus.now())
        return {"config": config, "hardware_info": hardware, "extensions": ["cancel", "drain"]}


class _Batch:
    """Tokens on their way: sent when there are enough of them, or the oldest has waited long enough."""

    def __init__(self, worker: Worker, socket: aiohttp.ClientWebSocketResponse, request_id: str) -> None:
        self._worker = worker
        self._socket = socket
        self._request_id = request_id
        self._text = ""
        self._tokens = 0
        self._last: tuple[int, float | None] = 0, None
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, text: str, token_id: int, log_prob: float | None) -> None:
        self._text += text
        self._tokens += 1
        self._last = token_id, log_prob
        if self._tokens >= _BATCH:
            await self.flush()
        elif self._text and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.create_task(self._flush_soon())

    async def _flush_soon(self) -> None:
        await asyncio.sleep(_BATCH_S)
        with suppress(aiohttp.ClientError, OSError):  # reading ends with the connection, and says so
            await self.flush()

    async def flush(self) -> None:
        if self._text:
            token_id, log_prob = self._last
            told = {"text": self._text, "log_prob": log_prob, "token_id": token_id, "tokens": self._tokens}
            self._text, self._tokens = "", 0
            frame = {"request_id": self._request_id, "response_type": "token", **told}
            await self._worker._say(self._socket, frame)


def _wished(parameters: dict[str, Any]) -> int:
    """New tokens."""
    return int((parameters.get("sampling_parameters") or {}).get("max_new_tokens") or 1024)


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
