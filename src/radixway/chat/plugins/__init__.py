"""Plugins that answers may use besides a model: built-in ones, remote ones by their manifests, MCP servers.

`PluginRegistry` finds them, `PluginAnswers` answers with one where the gateway's own workers answer.
"""

from radixway.chat.plugins.plugin_chain import PluginAnswers, StreamChat, find_chosen_plugin
from radixway.chat.plugins.plugin_registry import PluginRegistry

__all__ = ["PluginAnswers", "PluginRegistry", "StreamChat", "find_chosen_plugin"]
