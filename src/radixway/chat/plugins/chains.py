"""Which answers use a plugin, and how their model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from radixway.chat.plugins.chain import Bounds, Chain, ChatMessage, Speaker
from radixway.chat.plugins.shelf import Entry, Plugins, first_enabled
from radixway.chat.plugins.tools import Plugin, PluginFailed
from radixway.config.chat_plugins import ChatPluginsSection

if TYPE_CHECKING:
    from radixway.chat.attempt import Attempt
    from radixway.chat.completions import Ask

_DEEPEST = 16


class Chains:
    """Says answers with plugins: for the gateway's own workers, and in workers of ours that fetch jobs."""

    def __init__(self, plugins: Plugins, config: ChatPluginsSection) -> None:
        self._plugins = plugins
        self._config = config

    def wanted(self, attempt: Attempt) -> bool:
        """Whether a plugin is to be used."""
        return chosen(attempt.answer.work_parameters) is not None

    async def answer(self, attempt: Attempt, messages: Sequence[ChatMessage], ask: Ask) -> dict[str, Any]:
        """Say it; returns what `Attempt.finish` is to note."""
        parameters = attempt.answer.work_parameters or {}
        return await self.say(attempt, attempt.answer.model or "", parameters, messages, ask)

    async def say(
        self,
        speaker: Speaker,
        model: str,
        parameters: dict[str, Any],
        messages: Sequence[ChatMessage],
        ask: Ask,
    ) -> dict[str, Any]:
        """An answer with what `chosen` finds in published WorkParameters; returns what is to be noted of it.

        A plugin that cannot be used costs no answer: it is given without.
        """
        entry = chosen(parameters)
        assert entry is not None
        chain = Chain(_without_tools(entry), ask, speaker, self._bounds(parameters))
        try:
            chain = Chain(await self._plugins.open(entry), ask, speaker, self._bounds(parameters))
        except PluginFailed as error:
            chain.record.error = str(error)
            await chain.plainly(messages)
        else:
            calls = any(fnmatchcase(model, name) for name in self._config.function_calling)
            await (chain.with_functions(messages) if calls else chain.in_text(messages))
        return {
            "usage": chain.told.usage(),
            "finish_reason": chain.told.finish_reason,
            "used_plugin": chain.record.shape(),
        }

    def _bounds(self, parameters: dict[str, Any]) -> Bounds:
        depth = parameters.get("plugin_max_depth")
        return Bounds(
            max(0, min(depth, _DEEPEST)) if isinstance(depth, int) else 4,
            self._config.tool_timeout_s,
            self._config.result_characters,
        )


def chosen(parameters: dict[str, Any] | None) -> Entry | None:
    """The plugin that an answer is to use. None for one that goes on with another's words."""
    if not parameters or parameters.get("prefix"):
        return None
    return first_enabled(parameters.get("plugins") or ())


def _without_tools(entry: Entry) -> Plugin:
    """What is known of a plugin that cannot be used."""
    config = entry.get("plugin_config") or {}
    name = config.get("name_for_human") or entry["url"]
    return Plugin(entry["url"], name, "", (), trusted=bool(entry.get("trusted")))
