"""Engines over HTTP: TGI by `/generate_stream`, all others by OpenAI's API."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import msgspec

from radixway.chat.worker.prompt_format import PromptFormat, PromptTurn, render_prompt
from radixway.core.http.server_sent_events import iterate_data, read_events
from radixway.core.pipeline import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    IncompleteReplyError,
    ReplyForm,
    StreamEndDetector,
)

_decode = msgspec.json.Decoder().decode
_SAMPLING = ("top_k", "top_p", "typical_p", "temperature", "repetition_penalty")
_REASONS = {"stop": "eos_token", "length": "length", "stop_sequence": "stop_sequence"}


class UpstreamEngineError(Exception):
    """The engine does not answer, or refuses."""


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """A step of a generation."""

    text: str = ""
    token_id: int = 0
    log_prob: float | None = None
    special: bool = False
    """Its text is no part of the answer."""
    full_text: str | None = None
    """The whole text, in the last step of engines that report it."""
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """The model and context lengths that an engine reports; None: not reported."""

    model: str
    longest_input: int | None = None
    longest_total: int | None = None


class UpstreamEngine(ABC):
    """Generates text, and counts tokens."""

    formats: tuple[PromptFormat, ...]
    """Accepted prompt formats, best first."""

    def __init__(self, session: aiohttp.ClientSession, url: str, serving: EngineDescription) -> None:
        self.serving = serving
        self._session = session
        self._url = url

    @abstractmethod
    def generate(
        self, turns: Sequence[PromptTurn], form: PromptFormat, parameters: dict[str, Any], stop: Sequence[str]
    ) -> AsyncIterator[GenerationStep]:
        """Generate an answer to `turns`; closing the iterator aborts it. Raises UpstreamEngineError.

        `parameters`: published WorkParameters.
        """

    @abstractmethod
    async def count_tokens(self, text: str) -> int | None:
        """Return the tokens of `text`; None: the engine cannot count."""

    @abstractmethod
    async def count_prompt_tokens(self, turns: Sequence[PromptTurn], form: PromptFormat) -> int | None:
        """Return the tokens of the prompt of `turns` in `form`; None: the engine cannot count."""


class TgiEngine(UpstreamEngine):
    """Text Generation Inference."""

    formats = ("v2", "chatml")

    async def generate(
        self, turns: Sequence[PromptTurn], form: PromptFormat, parameters: dict[str, Any], stop: Sequence[str]
    ) -> AsyncIterator[GenerationStep]:
        """Generate by `/generate_stream`. Raises UpstreamEngineError."""
        fields = {
            "max_new_tokens": max_new_tokens(parameters),
            "do_sample": parameters.get("do_sample", True),
            "seed": parameters.get("seed"),
            "stop": list(stop),
            "details": True,
        } | _sampling_fields(parameters)
        body = {"inputs": render_prompt(turns, "chatml" if form == "chatml" else "v2"), "parameters": fields}
        end = StreamEndDetector(ReplyForm.TGI)
        async for event in _stream_events(self._session, f"{self._url}/generate_stream", body, end):
            token, details = event.get("token") or {}, event.get("details") or {}
            full_text = event.get("generated_text")
            yield GenerationStep(
                token.get("text") or "",
                token.get("id") or 0,
                token.get("logprob"),
                bool(token.get("special")) or details.get("finish_reason") == "eos_token",
                full_text,
                None if full_text is None else _REASONS.get(str(details.get("finish_reason")), "eos_token"),
            )

    async def count_tokens(self, text: str) -> int | None:
        """Count the tokens of `text` by `/tokenize`."""
        ids = await _post_json(self._session, f"{self._url}/tokenize", {"inputs": text})
        return len(ids) if isinstance(ids, list) else None

    async def count_prompt_tokens(self, turns: Sequence[PromptTurn], form: PromptFormat) -> int | None:
        """Count the tokens of `turns`, rendered in `form`."""
        return await self.count_tokens(render_prompt(turns, "chatml" if form == "chatml" else "v2"))


class OpenAIEngine(UpstreamEngine):
    """vLLM, SGLang, the embedded engine, and whatever else speaks OpenAI's API."""

    formats = ("engine", "v2", "chatml")

    async def generate(
        self, turns: Sequence[PromptTurn], form: PromptFormat, parameters: dict[str, Any], stop: Sequence[str]
    ) -> AsyncIterator[GenerationStep]:
        """Generate by chat completions, or by completions if `form` is rendered here."""
        body: dict[str, Any] = {"model": self.serving.model, "stream": True} | _sampling_fields(parameters)
        body["max_tokens"] = max_new_tokens(parameters)
        if parameters.get("seed") is not None:
            body["seed"] = parameters["seed"] % 2**63  # theirs are signed
        if stop:
            body["stop"] = list(stop)[:4]  # more are refused by some; ours are looked for here, too
        if form == "engine":
            endpoint = CHAT_COMPLETIONS
            body["messages"] = _to_chat_messages(turns)
        else:
            endpoint = COMPLETIONS
            body["prompt"] = render_prompt(turns, form)
        url, end = self._url + endpoint.path, StreamEndDetector(endpoint.reply_form)
        async for event in _stream_events(self._session, url, body, end):
            for choice in event.get("choices") or ():
                text = choice.get("text") if form != "engine" else choice.get("delta", {}).get("content")
                reason = choice.get("finish_reason")
                yield GenerationStep(
                    text or "", finish_reason=None if reason is None else _REASONS.get(reason, reason)
                )

    async def count_tokens(self, text: str) -> int | None:
        """Count the tokens of `text` by `/tokenize`."""
        return await self._count_by_tokenize({"prompt": text, "add_special_tokens": False})

    async def count_prompt_tokens(self, turns: Sequence[PromptTurn], form: PromptFormat) -> int | None:
        """Count the tokens of `turns` by `/tokenize`.

        SGLang cannot count conversations: there a ChatML prompt stands in for the engine's own template.
        """
        if form == "engine":
            count = await self._count_by_tokenize(
                {"messages": _to_chat_messages(turns), "add_generation_prompt": True}
            )
            if count is not None:
                return count
        return await self._count_by_tokenize(
            {"prompt": render_prompt(turns, "chatml" if form == "engine" else form)}
        )

    async def _count_by_tokenize(self, prompt: dict[str, Any]) -> int | None:
        body = {"model": self.serving.model} | prompt
        reply = await _post_json(self._session, f"{self._url}/tokenize", body)
        count = reply.get("count") if isinstance(reply, dict) else None
        return count if isinstance(count, int) else None


async def detect_engine(
    session: aiohttp.ClientSession, url: str, kind: Literal["auto", "tgi", "openai"] = "auto"
) -> UpstreamEngine:
    """Return the engine at `url`. Raises UpstreamEngineError."""
    url = url.rstrip("/").removesuffix("/v1")
    info = None if kind == "openai" else await _get_json(session, f"{url}/info")
    if info is not None and "max_total_tokens" in info:
        longest = info.get("max_input_tokens") or info.get("max_input_length")
        return TgiEngine(
            session,
            url,
            EngineDescription(info.get("model_id", "default"), longest, info["max_total_tokens"]),
        )
    if kind == "tgi":
        return TgiEngine(session, url, EngineDescription("default"))
    models = (await _get_json(session, f"{url}/v1/models") or {}).get("data") or ()
    if not models:
        raise UpstreamEngineError(f"{url} answers neither as TGI (/info) nor as OpenAI does (/v1/models)")
    return OpenAIEngine(
        session, url, EngineDescription(models[0]["id"], longest_total=models[0].get("max_model_len"))
    )


def _to_chat_messages(turns: Sequence[PromptTurn]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def _sampling_fields(parameters: dict[str, Any]) -> dict[str, Any]:
    given = parameters.get("sampling_parameters") or {}
    return {name: given[name] for name in _SAMPLING if given.get(name) is not None}


def max_new_tokens(parameters: dict[str, Any]) -> int:
    """Return the most tokens that an answer may have, of published WorkParameters."""
    return int((parameters.get("sampling_parameters") or {}).get("max_new_tokens") or 1024)


async def _get_json(session: aiohttp.ClientSession, url: str) -> dict[str, Any] | None:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=10)) as reply:
            document = await reply.json(content_type=None) if reply.status == 200 else None
            return document if isinstance(document, dict) else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


async def _post_json(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=10)
    try:
        async with session.post(
            url, data=msgspec.json.encode(body), headers=headers, timeout=timeout
        ) as reply:
            return _decode(await reply.read()) if reply.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
        return None


async def _stream_events(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], end: StreamEndDetector
) -> AsyncIterator[dict[str, Any]]:
    """Yield decoded server-sent events.

    Raises UpstreamEngineError, also for a stream without its `end`.
    """
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    try:
        async with session.post(url, data=msgspec.json.encode(body), headers=headers) as reply:
            if reply.status != 200:
                raise UpstreamEngineError(f"the engine answered {reply.status}: {(await reply.text())[:500]}")
            async for event in read_events(reply.content.iter_any()):
                end.note(event)
                for data in iterate_data(event):
                    decoded = _decode(data)
                    if "error" in decoded:
                        raise UpstreamEngineError(f"the engine says: {str(decoded['error'])[:500]}")
                    yield decoded
            end.check_complete()
    except IncompleteReplyError as error:
        raise UpstreamEngineError(f"the engine did not finish its answer: {error}") from None
    except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, ValueError) as error:
        raise UpstreamEngineError(f"the engine does not answer: {type(error).__name__}") from error
