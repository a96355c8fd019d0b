"""Replies of `/prefixes`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

Source = Literal["requests", "caches", "trajectories"]
Kind = Literal["model", "worker", "prefix"]
Tier = Literal["device", "host", "disk", "assumed"]


class PrefixUser(BaseModel):
    """A user of a prefix, and how often it uses it."""

    name: str
    requests: int


class PrefixHolder(BaseModel):
    """A worker with a prefix in its cache, by its KV events; `assumed` where only the gateway's choices say
    so.
    """

    name: str
    tier: Tier


class PrefixInfo(BaseModel):
    """A node: so many tokens that go on from the prefix above."""

    id: int
    parent: int | None
    """Comes before it; null at the top."""
    kind: Kind
    name: str
    """A model's or worker's; of a prefix the name of its last block, which nobody can read it from."""
    begin: int
    """Tokens before it."""
    tokens: int
    heat: int
    """Requests that came this way; of trajectories the number of the latest use, counted from the first."""
    last_used: float | None
    """Seconds since the epoch."""
    in_use: bool | None
    """By a request that runs now, where somebody says."""
    tenants: list[PrefixUser]
    """Who asks for it, the most frequent first; ten at most, as of the two that follow."""
    workers: list[PrefixUser]
    """Where requests were sent."""
    held_by: list[PrefixHolder]
    hidden: int
    """Prefixes right below it that are not told, and the tokens on them."""
    hidden_tokens: int
    text: str | None
    """How it begins, only where `console.show_prompts` allows that and somebody has the text."""


class PrefixTree(BaseModel):
    """A tree."""

    source: Source
    prefixes: list[PrefixInfo]
    """Each after the one above it."""
    requests: int | None
    """Those that the tree is made of."""
    prompt_tokens: int | None
    """In their prompts."""
    silent: list[str]
    """Workers that do not tell what they cache."""
    shows_text: bool
