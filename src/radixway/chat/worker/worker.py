"""One connection to a chat server, several answers at once, and a new connection when it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from radixway.chat.plugins import Chains, chosen
from radixway.chat.wake import within
from radixway.chat.worker import machine
from radixway.chat.worker.engines import Engine, EngineError, Said
from radixway.chat.worker.lengths import Lengths
from radixway.chat.worker.prompts import PromptFormat, StopFilter, Turn, stops, turns_of
from radixway.chat.worker.safety import Safety
from radixway.chat.worker.telling import Batch, Speaker, tell
from radixway.telemetry.gpus import Gpus

log = logging.getLogger(__name__)

_decode = msgspec.json.Decoder().decode
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
        plugins: Chains | None = None,
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
        self._plugins = plugins
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
                    await tell(socket, await self._info())
                    wait_s = self._first_wait_s
                    await self._serve(socket)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("the server is not there: %s", type(error).__name__)
            if not self._draining.is_set():
                await within(self._draining, wait_s * random.uniform(0.5, 1.0))
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        reading = asyncio.create_task(self._read(socket))
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({reading, draining}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                if "drain" in self._extensions:
                    await tell(socket, {"response_type": "drain"})
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
                await tell(socket, pong)
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
            if self._plugins is not None and chosen(parameters) is not None:
                told = await self._with_plugin(socket, request_id, turns, parameters)
            else:
                told = await self._generate(socket, request_id, turns, self._clamped(parameters, used))
            self._processed += 1
            end = {"used_plugin": None, "metrics": await self._metrics()} | told
            await tell(socket, {"request_id": request_id, "response_type": "generated_text", **end})
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
    ) -> dict[str, Any]:
        """Pass the words on in batches; returns all of them, and why they end."""
        batch, told, reason = Batch(socket, request_id), "", "eos_token"
        async with aclosing(self._said(turns, parameters)) as pieces:
            async for said in pieces:
                told += said.text
                reason = said.finish_reason or reason
                await batch.add(said.text, said.token_id, said.log_prob)
        await batch.flush()
        return {"text": told, "finish_reason": reason}

    async def _with_plugin(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        request_id: str,
        turns: list[Turn],
        parameters: dict[str, Any],
    ) -> dict[str, Any]:
        """As `_generate`, by way of a plugin's tools; also what was done with them."""
        assert self._plugins is not None

        async def ask(
            messages: Sequence[dict[str, Any]], more: dict[str, Any]
        ) -> AsyncGenerator[dict[str, Any], None]:
            asked = [Turn(message["role"], message["content"]) for message in messages]
            asked, used = await self._lengths.fitted(asked, _wished(parameters))
            pieces = self._said(asked, self._clamped(parameters, used), *more.get("stop", ()))
            async with aclosing(pieces):
                async for said in pieces:
                    delta = {"content": said.text}
                    yield {"choices": [{"delta": delta, "finish_reason": said.finish_reason}]}

        speaker = Speaker(socket, request_id)
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        noted = await self._plugins.say(speaker, self._serves.model_id, parameters, messages, ask)
        await speaker.batch.flush()
        reason = noted["finish_reason"] or "eos_token"
        return {"text": speaker.told, "finish_reason": reason, "used_plugin": noted["used_plugin"]}

    async def _said(
        self, turns: list[Turn], parameters: dict[str, Any], *more_stops: str
    ) -> AsyncGenerator[Said, None]:
        """The model's words, without stop sequences and halves of characters; the last says why they end."""
        sequences = (*more_stops, *stops(self._form))
        stopping, reason, told, whole, broken = StopFilter(sequences), "eos_token", "", None, False
        async for said in self._engine.generate(turns, self._form, parameters, sequences):
            broken = broken or "\ufffd" in said.text  # half a character: the whole text has all of it
            text = "" if said.special or broken else stopping.push(said.text)
            told += text
            yield Said(text, said.token_id, said.log_prob)
            whole = said.whole if whole is None else whole
            reason = said.finish_reason or reason
            if stopping.stopped:
                reason = "stop_sequence"
                break
        rest = stopping.rest()
        if broken and whole is not None and whole.startswith(told):
            rest = StopFilter(sequences).push(whole)[len(told) :]
        yield Said(rest, finish_reason=reason)

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
        await tell(socket, {"request_id": work["id"], "response_type": "safe_prompt", **told})
        return [*turns[:-1], safe]

    async def _fail(self, socket: aiohttp.ClientWebSocketResponse, request_id: str, error: str) -> None:
        log.warning("a job failed: %s", error.partition(":")[0])  # the rest may quote a prompt
        told = {"error": error, "metrics": await self._metrics()}
        await tell(socket, {"request_id": request_id, "response_type": "error", **told})

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


def _wished(parameters: dict[str, Any]) -> int:
    """New tokens."""
    return int((parameters.get("sampling_parameters") or {}).get("max_new_tokens") or 1024)
