"""Our pull worker: one connection to a chat server, several answers at once, and reconnects."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from radixway.chat.notifications import wait_for_event
from radixway.chat.plugins import PluginAnswers, find_chosen_plugin
from radixway.chat.safety import SafetyVerdict, parse_verdict
from radixway.chat.worker import machine_info
from radixway.chat.worker.job_reply import JobReply, send_frame
from radixway.chat.worker.prompt_format import (
    PromptFormat,
    PromptTurn,
    StopFilter,
    parse_turns,
    stop_sequences,
)
from radixway.chat.worker.thread_truncation import ThreadTruncator
from radixway.chat.worker.upstream_engines import (
    GenerationStep,
    UpstreamEngine,
    UpstreamEngineError,
    max_new_tokens,
)
from radixway.core.telemetry.gpus import GpuMonitor


class WorkerSafetyClient:
    """A worker's own safety: asks the published service before anything is generated."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url.rstrip('/')}/safety"

    async def judge(self, prompt: str, level: int) -> SafetyVerdict:
        """Judge `prompt` at `level`. Raises aiohttp.ClientError, TimeoutError, ValueError."""
        body = {"inputs": prompt, "parameters": {"level": level}}
        async with self._session.post(self._url, json=body, timeout=aiohttp.ClientTimeout(total=30)) as reply:
            reply.raise_for_status()
            answer: dict[str, Any] = await reply.json(content_type=None)
        return parse_verdict(str(answer.get("outputs", "")))


log = logging.getLogger(__name__)

_decode = msgspec.json.Decoder().decode
_MAX_RECONNECT_DELAY_S = 30.0


class ServerRejectedError(Exception):
    """The server does not let this worker in; trying again does not help."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model that the worker registers for, and its parallelism."""

    model_id: str
    max_input_length: int
    max_total_length: int
    quantized: bool = False
    at_once: int = 1


class ChatWorker:
    """Works while `run_until_drained()`. Belongs to one event loop."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        api_key: str,
        engine: UpstreamEngine,
        serves: ServedModel,
        *,
        form: PromptFormat | None = None,
        safety: WorkerSafetyClient | None = None,
        plugins: PluginAnswers | None = None,
        first_wait_s: float = 0.5,
    ) -> None:
        """`server`: `ws://…`. `first_wait_s`: till a broken connection is made again; doubled each time."""
        self._session = session
        self._url = server if "/work" in server else f"{server.rstrip('/')}/workers/work"
        self._headers = {"X-API-Key": api_key, "X-Protocol-Version": "1"}
        self._engine = engine
        self._serves = serves
        self._form: PromptFormat = form or engine.formats[0]
        self._lengths = ThreadTruncator(engine, self._form, serves.max_input_length, serves.max_total_length)
        self._gpus = GpuMonitor()
        self._safety = safety
        self._plugins = plugins
        self._first_wait_s = first_wait_s
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._draining = asyncio.Event()
        self._extensions: frozenset[str] = frozenset()
        self._processed = 0

    def drain(self) -> None:
        """Take no more jobs, finish those in flight, and stop."""
        self._draining.set()

    async def run_until_drained(self) -> None:
        """Fetch and answer jobs until drained. Raises ServerRejectedError."""
        wait_s = self._first_wait_s
        while not self._draining.is_set():
            try:
                async with self._session.ws_connect(self._url, headers=self._headers) as socket:
                    await send_frame(socket, await self._registration_frame())
                    wait_s = self._first_wait_s
                    await self._serve_connection(socket)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("the server is unavailable: %s", type(error).__name__)
            if not self._draining.is_set():
                await wait_for_event(self._draining, wait_s * random.uniform(0.5, 1.0))
                wait_s = min(wait_s * 2, _MAX_RECONNECT_DELAY_S)

    async def _serve_connection(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        reading = asyncio.create_task(self._read_frames(socket))
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({reading, draining}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                if "drain" in self._extensions:
                    await send_frame(socket, {"response_type": "drain"})
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

    async def _read_frames(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            frame = _decode(message.data)
            kind = frame.get("request_type")
            if kind == "work":
                # While draining, a server that was not told so gets the job back as we leave.
                if not self._draining.is_set() or "drain" in self._extensions:
                    self._start_job(socket, frame)
            elif kind == "ping":
                await JobReply(socket, frame["id"]).send("pong", metrics=await self._collect_metrics())
            elif kind == "cancel" and (job := self._jobs.get(frame.get("request_id", ""))) is not None:
                job.cancel()
            elif kind == "extensions":
                self._extensions = frozenset(frame.get("extensions") or ())
            elif kind == "terminate":
                self.drain()
            elif kind in ("wrong_api_key", "upgrade_protocol"):
                raise ServerRejectedError(f"the server says {kind}")
            elif kind == "error":
                log.warning("the server says: %s", str(frame.get("error"))[:500])

    def _start_job(self, socket: aiohttp.ClientWebSocketResponse, work: dict[str, Any]) -> None:
        request_id = work["id"]
        self._jobs[request_id] = task = asyncio.create_task(self._answer_job(socket, work))
        task.add_done_callback(lambda _: self._jobs.pop(request_id, None))

    async def _answer_job(self, socket: aiohttp.ClientWebSocketResponse, work: dict[str, Any]) -> None:
        reply = JobReply(socket, work["id"])
        try:
            parameters = work.get("parameters") or {}
            wished = max_new_tokens(parameters)
            turns, used = await self._lengths.truncate_thread(parse_turns(work), wished)
            safe = await self._make_question_safe(reply, work, turns)
            if safe is not turns:
                turns, used = await self._lengths.truncate_thread(safe, wished)
            if self._plugins is not None and find_chosen_plugin(parameters) is not None:
                result = await self._generate_with_plugin(reply, turns, parameters)
            else:
                result = await self._generate_answer(reply, turns, self._clamp_tokens(parameters, used))
            self._processed += 1
            end = {"used_plugin": None, "metrics": await self._collect_metrics()} | result
            await reply.send("generated_text", **end)
        except UpstreamEngineError as error:
            await self._report_failure(reply, str(error))
        except (KeyError, TypeError, ValueError) as error:
            log.exception("a job could not be read")
            await self._report_failure(reply, f"the job cannot be read ({type(error).__name__})")

    async def _generate_answer(
        self, reply: JobReply, turns: list[PromptTurn], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        reason = "eos_token"
        async with aclosing(self._generation_steps(turns, parameters)) as pieces:
            async for step in pieces:
                reason = step.finish_reason or reason
                await reply.add_token(step.text, step.token_id, step.log_prob)
        await reply.flush_tokens()
        return {"text": reply.text, "finish_reason": reason}

    async def _generate_with_plugin(
        self, reply: JobReply, turns: list[PromptTurn], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """As `_generate_answer`, by way of a plugin's tools; also returns the record of their use."""
        assert self._plugins is not None

        async def ask(
            messages: Sequence[dict[str, Any]], options: dict[str, Any]
        ) -> AsyncGenerator[dict[str, Any], None]:
            thread = [PromptTurn(message["role"], message["content"]) for message in messages]
            thread, used = await self._lengths.truncate_thread(thread, max_new_tokens(parameters))
            pieces = self._generation_steps(
                thread, self._clamp_tokens(parameters, used), *options.get("stop", ())
            )
            async with aclosing(pieces):
                async for step in pieces:
                    delta = {"content": step.text}
                    yield {"choices": [{"delta": delta, "finish_reason": step.finish_reason}]}

        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        noted = await self._plugins.answer_with_plugin(
            reply, self._serves.model_id, parameters, messages, ask
        )
        await reply.flush_tokens()
        reason = noted["finish_reason"] or "eos_token"
        return {"text": reply.text, "finish_reason": reason, "used_plugin": noted["used_plugin"]}

    async def _generation_steps(
        self, turns: list[PromptTurn], parameters: dict[str, Any], *more_stops: str
    ) -> AsyncGenerator[GenerationStep, None]:
        """Yield the model's text without stop sequences and partial characters; the last has the finish
        reason."""
        sequences = (*more_stops, *stop_sequences(self._form))
        stopping, reason = StopFilter(sequences), "eos_token"
        text_so_far, full_text, broken = "", None, False
        async for step in self._engine.generate(turns, self._form, parameters, sequences):
            broken = broken or "\ufffd" in step.text  # half a character: the whole text has all of it
            text = "" if step.special or broken else stopping.feed(step.text)
            text_so_far += text
            yield GenerationStep(text, step.token_id, step.log_prob)
            full_text = step.full_text if full_text is None else full_text
            reason = step.finish_reason or reason
            if stopping.stopped:
                reason = "stop_sequence"
                break
        rest = stopping.flush()
        if broken and full_text is not None and full_text.startswith(text_so_far):
            rest = StopFilter(sequences).feed(full_text)[len(text_so_far) :]
        yield GenerationStep(rest, finish_reason=reason)

    def _clamp_tokens(self, parameters: dict[str, Any], used: int) -> dict[str, Any]:
        left = max(self._serves.max_total_length - used - 1, 1)
        sampling = dict(parameters.get("sampling_parameters") or {})
        sampling["max_new_tokens"] = min(max_new_tokens(parameters), left)
        return parameters | {"sampling_parameters": sampling}

    async def _make_question_safe(
        self, reply: JobReply, work: dict[str, Any], turns: list[PromptTurn]
    ) -> list[PromptTurn]:
        level = int((work.get("safety_parameters") or {}).get("level") or 0)
        if self._safety is None or level < 1 or not turns:
            return turns
        try:
            verdict = await self._safety.judge(turns[-1].text, level)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UpstreamEngineError(
                f"the safety service does not answer: {type(error).__name__}"
            ) from error
        if not verdict.is_triggered(level):
            return turns
        safe = PromptTurn(turns[-1].role, verdict.rewrite_prompt(turns[-1].text))
        await reply.send(
            "safe_prompt",
            safe_prompt=safe.text,
            safety_parameters={"level": level},
            safety_label=verdict.label,
            safety_rots=verdict.rots,
        )
        return [*turns[:-1], safe]

    async def _report_failure(self, reply: JobReply, error: str) -> None:
        log.warning("a job failed: %s", error.partition(":")[0])  # the rest may quote a prompt
        await reply.send("error", error=error, metrics=await self._collect_metrics())

    async def _collect_metrics(self) -> dict[str, Any]:
        measured = machine_info.measure_metrics(await self._gpus.read_gpus())
        return measured | {"requests_processed": self._processed}

    async def _registration_frame(self) -> dict[str, Any]:
        serves = self._serves
        shape = {
            "model_id": serves.model_id,
            "max_input_length": serves.max_input_length,
            "max_total_length": serves.max_total_length,
            "quantized": serves.quantized,
        }
        config = {"model_config": shape, "max_parallel_requests": serves.at_once}
        hardware = machine_info.describe_hardware(await self._gpus.read_gpus())
        return {"config": config, "hardware_info": hardware, "extensions": ["cancel", "drain"]}
