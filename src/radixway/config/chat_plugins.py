"""Plugins and MCP servers: what answers may use besides a model."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from radixway.config.base import ConfigSection

BuiltinPlugin = Literal["gale_pleaser", "gale_roaster", "web_retriever", "calculator"]


class ChatPluginsConfig(ConfigSection):
    """Plugins that a user may choose for an answer."""

    builtin: tuple[BuiltinPlugin, ...] = ("gale_pleaser", "gale_roaster", "web_retriever", "calculator")
    """Those of ours that are offered, at `/plugins/{name}/`; `web_retriever` fetches for anybody who asks."""
    by_url: bool = True
    """Users may name plugins of others by the URL of their `ai-plugin.json`."""
    function_calling: tuple[str, ...] = ()
    """Models that call functions by themselves, by name; `*` stands for anything. Others are asked in text
    (Thought, Action, Observation)."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that plugins may be on besides the public internet, such as `10.1.0.0/16`."""
    fetch_timeout_s: float = Field(default=10.0, gt=0)
    """For a page, a manifest or a call of a plugin, redirects included."""
    tool_timeout_s: float = Field(default=30.0, gt=0)
    """For one call of a tool, whatever it is."""
    result_characters: int = Field(default=2048, ge=64)
    """Of a tool's result, that the model is shown."""
    page_characters: int = Field(default=1585, ge=64)
    """Of a page's text, that `web_retriever` gives."""

    @field_validator("allowed_networks")
    @classmethod
    def _check_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for network in networks:
            ip_network(network)
        return networks


class McpServerConfig(ConfigSection):
    """A server of the Model Context Protocol: a command that speaks it on stdin and stdout, or a URL."""

    command: str | None = Field(default=None, min_length=1)
    """A program to start, which speaks over stdio."""
    args: tuple[str, ...] = ()
    """Arguments of the command."""
    env: dict[str, SecretStr] = Field(default={})
    """Of the command, besides `PATH`, `HOME` and the like."""
    cwd: str | None = None
    """The directory in which it starts."""
    url: str | None = Field(default=None, pattern="^https?://")
    """Of streamable HTTP."""
    headers: dict[str, SecretStr] = Field(default={})
    """To the URL, such as `Authorization`."""
    description: str = ""
    """What models are told of it; by default what the server says."""
    tools: tuple[str, ...] | None = None
    """Those of its tools that are offered; by default all."""
    timeout_s: float = Field(default=30.0, gt=0)
    """For its start, and for each call."""

    @model_validator(mode="after")
    def _check_command_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")
        return self
