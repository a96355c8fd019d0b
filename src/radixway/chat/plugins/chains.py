"""Which answers use a plugin, and how their model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from radixway.chat.attempt import Attempt
from radixway.chat.plugins.chain import Bounds, Chain, ChatMessage
from radixway.chat.plugins.shelf import Entry, Plugins, first_enabled
from radixway.chat.plugins.tools import Plugin, PluginFailed
from radixway.chat.push import Ask
from radixway.config.chat_plugins import ChatPluginsSection

_DEEPEST = 16


class Chains:
    """For answers of the gateway's own workers; workers that fetch jobs use plugins by themselves."""

    def __init__(self, plugins: Plugins, config: ChatPluginsSection) -> None:
        self._plugins = plugins
        self._config = config

    def wanted(self, attempt: Attempt) -> bool:
        """Whether a plugin is to be used. Not for an answer that goes on with another's words."""
        return not attempt.prefix and _chosen(attempt) is not None

    async def answer(self, attempt: Attempt, messages: Sequence[ChatMessage], ask: Ask) -> dict[str, Any]:
        """Say it; returns what `Attempt.finish` is to note.

        A plugin that cannot be used costs no answer: it is given without.
        """
        entry = _chosen(attempt)
        assert entry is not None
        chain = Chain(_without_tools(entry), ask, attempt, self._bounds(attempt))
        try:
            chain = Chain(await self._plugins.open(entry), ask, attempt, self._bounds(attempt))
        except PluginFailed as error:
            chain.record.error = str(error)
            await chain.plainly(messages)
        else:
            calls = any(
                fnmatchcase(attempt.answer.model or "", name) for name in self._config.function_calling
            )
            await (chain.with_functions(messages) if calls else chain.in_text(messages))
        told = chain.told
        return {
            "usage": told.usage(),
            "finish_reason": told.finish_reason,
            "used_plugin": chain.record.shape(),
        }

    def _bounds(self, attempt: Attempt) -> Bounds:
        depth = (attempt.answer.work_parameters or {}).get("plugin_max_depth")
        return Bounds(
            max(0, min(depth, _DEEPEST)) if isinstance(depth, int) else 4,
            self._config.tool_timeout_s,
            self._config.result_characters,
        )


def _chosen(attempt: Attempt) -> Entry | None:
    return first_enabled((attempt.answer.work_parameters or {}).get("plugins") or ())


def _without_tools(entry: Entry) -> Plugin:
    """What is known of a plugin that cannot be used."""
    config = entry.get("plugin_config") or {}
    name = config.get("name_for_human") or entry["url"]
    return Plugin(entry["url"], name, "", (), trusted=bool(entry.get("trusted")))
