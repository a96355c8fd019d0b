"""Answers that may use a plugin: the model is asked, its calls are made, and it is asked again.

Models that call functions are offered the tools as such; others are asked in text (`react.py`)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

from radixway.chat.plugins import react
from radixway.chat.plugins.plugin import ChatPlugin, PluginError, PluginTool, ToolObservation, call_tool
from radixway.chat.plugins.plugin_registry import PluginEntry, PluginRegistry, find_enabled
from radixway.core.config.chat import ChatPluginsConfig

ChatMessage = dict[str, Any]
StreamChat = Callable[[Sequence[dict[str, Any]], dict[str, Any]], AsyncGenerator[dict[str, Any], None]]
"""One request to the answer's model: messages and further fields of the body; the chunks that it says."""
_LAST = "You have used the tools as often as you may. Answer now, without them."
_MAX_PARALLEL_CALLS = 8
_TOO_MANY = f"Error: at most {_MAX_PARALLEL_CALLS} calls at once; call again"
_MAX_RECORD_CHARACTERS = 20_000


class AnswerSpeaker(Protocol):
    """Receives the text and the steps of an answer, such as an `AnswerAttempt`."""

    async def send_text(self, text: str) -> None:
        """Append `text` to the answer."""
        ...

    async def send_plugin_step(self, thought: str, action: str, given: str, found: str) -> None:
        """Report a call: the `thought` before it, the `action`, its input (`given`) and result (`found`)."""
        ...


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """Limits of a chain."""

    depth: int = 4
    """How often the model may call before it has to answer."""
    tool_timeout_s: float = 30.0
    result_characters: int = 2048


@dataclass(slots=True)
class ChainUsage:
    """The token usage of all requests of a chain."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str | None = None
    _counted: bool = False

    def add_chunk(self, event: dict[str, Any]) -> None:
        """Add the usage and finish reason in `event`, one chunk."""
        usage = event.get("usage")
        if usage:
            self._counted = True
            self.prompt_tokens += usage.get("prompt_tokens") or 0
            self.completion_tokens += usage.get("completion_tokens") or 0
        for choice in event.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def total_usage(self) -> dict[str, int] | None:
        """Return the usage of all requests; None where no worker reports any."""
        total = self.prompt_tokens + self.completion_tokens
        counted = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return counted | {"total_tokens": total} if self._counted else None


@dataclass(slots=True)
class PluginRecord:
    """The record of a plugin's use, step by step, in the published shape `used_plugin`."""

    url: str
    name: str
    trusted: bool
    monologue: list[str] = field(default_factory=list)
    prompt: str = ""
    output: str = ""
    depth: int = 0
    assisted: bool = False
    error: str = ""

    def record_exchange(self, prompt: str, answer: str) -> None:
        """Record one request's `prompt` and the model's `answer`."""
        self.prompt = prompt[-_MAX_RECORD_CHARACTERS:]
        self.monologue += [
            f"In: {prompt}"[:_MAX_RECORD_CHARACTERS],
            f"Out: {answer}"[:_MAX_RECORD_CHARACTERS],
        ]

    def record_observation(self, observation: ToolObservation) -> None:
        """Record the `observation` of a call."""
        self.output = observation.text
        self.error = observation.text if observation.failed else ""

    def to_shape(self) -> dict[str, Any] | None:
        """Return the published shape; None: the plugin was offered and not used."""
        if not self.depth and not self.error:
            return None
        details = {
            "inner_monologue": self.monologue,
            "final_tool_output": self.output,
            "final_prompt": self.prompt,
            "final_generation_assisted": self.assisted,
            "achieved_depth": self.depth,
            "error_message": self.error,
            "status": "failure" if self.error else "success",
        }
        return {"name": self.name, "url": self.url, "trusted": self.trusted, "execution_details": details}


@dataclass(slots=True)
class PluginChain:
    """Answers once with one plugin's tools."""

    plugin: ChatPlugin
    ask: StreamChat
    speaker: AnswerSpeaker
    bounds: ChainLimits = field(default_factory=ChainLimits)
    usage: ChainUsage = field(default_factory=ChainUsage)
    record: PluginRecord = field(init=False)

    def __post_init__(self) -> None:
        self.record = PluginRecord(self.plugin.url, self.plugin.name, self.plugin.trusted)

    async def answer_in_text(self, messages: Sequence[ChatMessage]) -> None:
        """Answer `messages` with a model that cannot call functions."""
        thread = _with_instructions(messages, react.build_instructions(self.plugin))
        shown = _thread_text(thread)
        while True:
            last = self.record.depth >= self.bounds.depth
            if last:
                self.record.assisted = True
                thread[-1]["content"] += f"\n\n{_LAST}"  # templates want roles to take turns
                shown += f"\n\n{_LAST}"
            text = await self._stream_text(thread)
            self.record.record_exchange(shown, text)
            action = None if last else react.parse_action(text)
            if action is None:
                return
            observation = await self._run_action(action)
            self.record.depth += 1
            shown = f"Observation: {observation.text}"
            thread += [{"role": "assistant", "content": text}, {"role": "user", "content": shown}]
            await self._report_step(action.thought, action.tool, action.arguments, observation)

    async def _stream_text(self, thread: Sequence[ChatMessage]) -> str:
        self.usage.finish_reason = None
        reader = react.ReactAnswerReader()
        async with aclosing(self.ask(thread, {"stop": [react.STOP]})) as events:
            async for event in events:
                self.usage.add_chunk(event)
                for delta in iter_deltas(event):
                    await self.speaker.send_text(reader.feed(delta.get("content") or ""))
        if self.record.depth >= self.bounds.depth or react.parse_action(reader.text) is None:
            await self.speaker.send_text(reader.flush())
        return reader.text

    async def _run_action(self, action: react.ReactAction) -> ToolObservation:
        tool = react.find_tool(action.tool, self.plugin.tools)
        if tool is None:
            return self._unknown_tool(action.tool)
        try:
            arguments = react.parse_arguments(action.arguments, tool)
        except ValueError as error:
            return ToolObservation(f"Error: {error}", failed=True)
        return await self._run_tool(tool, arguments)

    async def answer_plainly(self, messages: Sequence[ChatMessage]) -> None:
        """Answer `messages` without the plugin."""
        async with aclosing(self.ask(messages, {})) as events:
            async for event in events:
                self.usage.add_chunk(event)
                for delta in iter_deltas(event):
                    await self.speaker.send_text(delta.get("content") or "")

    async def answer_with_functions(self, messages: Sequence[ChatMessage]) -> None:
        """Answer `messages` with a model that calls functions."""
        thread = _with_instructions(messages, self.plugin.description)
        offered: dict[str, Any] = {"tools": [_to_function(tool) for tool in self.plugin.tools]}
        shown = _thread_text(thread)
        while True:
            last = self.record.depth >= self.bounds.depth
            self.record.assisted = last
            text, calls = await self._stream_calls(
                thread, offered | ({"tool_choice": "none"} if last else {})
            )
            self.record.record_exchange(shown, text or json.dumps([call["function"] for call in calls]))
            if last or not calls:
                return
            thread.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            made = (self._call_function(call["function"]) for call in calls[:_MAX_PARALLEL_CALLS])
            found = await asyncio.gather(*made)
            found += [ToolObservation(_TOO_MANY, failed=True)] * len(calls[_MAX_PARALLEL_CALLS:])
            self.record.depth += 1
            for call, observation in zip(calls, found, strict=True):
                thread.append({"role": "tool", "tool_call_id": call["id"], "content": observation.text})
                function = call["function"]
                await self._report_step(text.strip(), function["name"], function["arguments"], observation)
            shown = "\n".join(f"Observation: {observation.text}" for observation in found)

    async def _stream_calls(
        self, thread: Sequence[ChatMessage], options: dict[str, Any]
    ) -> tuple[str, list[dict[str, Any]]]:
        self.usage.finish_reason = None
        text, calls = "", dict[int, dict[str, Any]]()
        async with aclosing(self.ask(thread, options)) as events:
            async for event in events:
                self.usage.add_chunk(event)
                for delta in iter_deltas(event):
                    piece = delta.get("content") or ""
                    if text.strip() or piece.strip():  # not the blank lines that stand before a call
                        await self.speaker.send_text(piece)
                    text += piece
                    for number, part in enumerate(delta.get("tool_calls") or ()):
                        _merge_call(calls, part.get("index", number), part)
        return text, [calls[index] for index in sorted(calls)]

    async def _call_function(self, function: dict[str, Any]) -> ToolObservation:
        tool = next((tool for tool in self.plugin.tools if tool.name == function["name"]), None)
        if tool is None:
            return self._unknown_tool(function["name"])
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            return ToolObservation("Error: the arguments are no JSON object", failed=True)
        return await self._run_tool(tool, arguments)

    async def _run_tool(self, tool: PluginTool, arguments: dict[str, Any]) -> ToolObservation:
        bounds = self.bounds
        return await call_tool(
            tool, arguments, timeout_s=bounds.tool_timeout_s, characters=bounds.result_characters
        )

    def _unknown_tool(self, name: str) -> ToolObservation:
        names = ", ".join(tool.name for tool in self.plugin.tools)
        return ToolObservation(f"Error: there is no tool {name[:64]}; there are: {names}", failed=True)

    async def _report_step(self, thought: str, action: str, given: str, observation: ToolObservation) -> None:
        self.record.record_observation(observation)
        await self.speaker.send_plugin_step(thought, action, given, observation.text)


def iter_deltas(event: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the delta of each choice in `event`."""
    for choice in event.get("choices") or ():
        yield choice.get("delta") or {}


def _merge_call(calls: dict[int, dict[str, Any]], index: int, part: dict[str, Any]) -> None:
    call = calls.setdefault(
        index, {"id": f"call_{index}", "type": "function", "function": {"name": "", "arguments": ""}}
    )
    call["id"] = part.get("id") or call["id"]
    function = part.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def _to_function(tool: PluginTool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _with_instructions(messages: Sequence[ChatMessage], text: str) -> list[ChatMessage]:
    thread = [dict(message) for message in messages]
    if thread and thread[0]["role"] == "system":
        thread[0]["content"] = f"{thread[0]['content']}\n\n{text}"
        return thread
    return [{"role": "system", "content": text}, *thread]


def _thread_text(thread: Sequence[ChatMessage]) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in thread)


_MAX_DEPTH = 16


class PluginAnswers:
    """Answers with plugins, for the gateway's own workers and in our pull worker."""

    def __init__(self, plugins: PluginRegistry, config: ChatPluginsConfig) -> None:
        self._plugins = plugins
        self._config = config

    async def answer_with_plugin(
        self,
        speaker: AnswerSpeaker,
        model: str,
        parameters: dict[str, Any],
        messages: Sequence[ChatMessage],
        ask: StreamChat,
    ) -> dict[str, Any]:
        """Stream an answer into `speaker`; returns usage, finish reason and the record of the chosen plugin.

        A plugin that cannot be used costs no answer: it is given without.
        """
        entry = find_chosen_plugin(parameters)
        assert entry is not None
        limits = self._chain_limits(parameters)
        try:
            plugin = await self._plugins.open_plugin(entry)
        except PluginError as error:
            chain = PluginChain(_without_tools(entry), ask, speaker, limits)
            chain.record.error = str(error)
            await chain.answer_plainly(messages)
        else:
            chain = PluginChain(plugin, ask, speaker, limits)
            calls = any(fnmatchcase(model, name) for name in self._config.function_calling)
            await (chain.answer_with_functions(messages) if calls else chain.answer_in_text(messages))
        return {
            "usage": chain.usage.total_usage(),
            "finish_reason": chain.usage.finish_reason,
            "used_plugin": chain.record.to_shape(),
        }

    def _chain_limits(self, parameters: dict[str, Any]) -> ChainLimits:
        depth = parameters.get("plugin_max_depth")
        return ChainLimits(
            max(0, min(depth, _MAX_DEPTH)) if isinstance(depth, int) else 4,
            self._config.tool_timeout_s,
            self._config.result_characters,
        )


def find_chosen_plugin(parameters: dict[str, Any] | None) -> PluginEntry | None:
    """Return the plugin that `parameters` choose; None also for an answer that continues another one."""
    if not parameters or parameters.get("prefix"):
        return None
    return find_enabled(parameters.get("plugins") or ())


def _without_tools(entry: PluginEntry) -> ChatPlugin:
    config = entry.get("plugin_config") or {}
    name = config.get("name_for_human") or entry["url"]
    return ChatPlugin(entry["url"], name, "", (), trusted=bool(entry.get("trusted")))
