"""Which answers use a plugin, and how their model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from radixway.chat.plugins.plugin import ChatPlugin, PluginError
from radixway.chat.plugins.plugin_chain import (
    AnswerSpeaker,
    ChainLimits,
    ChatMessage,
    PluginChain,
    StreamChat,
)
from radixway.chat.plugins.plugin_registry import PluginEntry, PluginRegistry, find_enabled
from radixway.core.config.chat import ChatPluginsConfig

if TYPE_CHECKING:
    from radixway.chat.answer_attempt import AnswerAttempt

_DEEPEST = 16


class PluginAnswers:
    """Answers with plugins, for the gateway's own workers and in our pull worker."""

    def __init__(self, plugins: PluginRegistry, config: ChatPluginsConfig) -> None:
        self._plugins = plugins
        self._config = config

    def uses_tools(self, attempt: AnswerAttempt) -> bool:
        """Return whether `attempt` is to use a plugin."""
        return find_chosen_plugin(attempt.answer.work_parameters) is not None

    async def answer_with_tools(
        self, attempt: AnswerAttempt, messages: Sequence[ChatMessage], ask: StreamChat
    ) -> dict[str, Any]:
        """Stream an answer into `attempt`; returns the fields for `AnswerAttempt.finish_answer`."""
        parameters = attempt.answer.work_parameters or {}
        return await self.answer_with_plugin(attempt, attempt.answer.model or "", parameters, messages, ask)

    async def answer_with_plugin(
        self,
        speaker: AnswerSpeaker,
        model: str,
        parameters: dict[str, Any],
        messages: Sequence[ChatMessage],
        ask: StreamChat,
    ) -> dict[str, Any]:
        """Stream an answer into `speaker`, using the plugin chosen in `parameters`; returns usage, finish
        reason and record.

        A plugin that cannot be used costs no answer: it is given without.
        """
        entry = find_chosen_plugin(parameters)
        assert entry is not None
        chain = PluginChain(_without_tools(entry), ask, speaker, self._chain_limits(parameters))
        try:
            chain = PluginChain(
                await self._plugins.open_plugin(entry), ask, speaker, self._chain_limits(parameters)
            )
        except PluginError as error:
            chain.record.error = str(error)
            await chain.answer_plainly(messages)
        else:
            calls = any(fnmatchcase(model, name) for name in self._config.function_calling)
            await (chain.answer_with_functions(messages) if calls else chain.answer_in_text(messages))
        return {
            "usage": chain.told.total_usage(),
            "finish_reason": chain.told.finish_reason,
            "used_plugin": chain.record.to_shape(),
        }

    def _chain_limits(self, parameters: dict[str, Any]) -> ChainLimits:
        depth = parameters.get("plugin_max_depth")
        return ChainLimits(
            max(0, min(depth, _DEEPEST)) if isinstance(depth, int) else 4,
            self._config.tool_timeout_s,
            self._config.result_characters,
        )


def find_chosen_plugin(parameters: dict[str, Any] | None) -> PluginEntry | None:
    """Return the plugin that `parameters` choose; None also for an answer that continues another one."""
    if not parameters or parameters.get("prefix"):
        return None
    return find_enabled(parameters.get("plugins") or ())


def _without_tools(entry: PluginEntry) -> ChatPlugin:
    """What is known of a plugin that cannot be used."""
    config = entry.get("plugin_config") or {}
    name = config.get("name_for_human") or entry["url"]
    return ChatPlugin(entry["url"], name, "", (), trusted=bool(entry.get("trusted")))
