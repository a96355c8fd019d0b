"""The `console` section: the web pages at `/console`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from radixway.core.config.base import ConfigSection
from radixway.core.config.sections import Host


def _check_trace_url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or "{trace_id}" not in text:
        raise ValueError("an http(s) address with {trace_id} in it")
    return text


TraceUrl = Annotated[str, AfterValidator(_check_trace_url)]


class ConsoleConfig(ConfigSection):
    """The web pages (docs/console.md). Needs radixway[console]; they run in a process of their own."""

    enabled: bool = True
    """Whether there are pages at `/console`."""
    preload: bool | None = None
    """Whether that process is started as soon as the gateway listens, rather than with the first visit: it
    takes some 100 MB. By default where the gateway listens on this machine alone."""
    hosts: tuple[Host, ...] = ()
    """Names (`gateway.example.com`, with the port if it is not the scheme's own) under which browsers reach
    the gateway, where a proxy before it changes the `Host` header, or where no key is needed and it is
    reached by a name other than `localhost`."""
    session_hours: float = Field(default=12, gt=0, le=24 * 30)
    """How long one who signed in and then does nothing stays signed in."""
    attempts_per_minute: int = Field(default=10, ge=1)
    """Wrong keys in a minute before the next gets a 429: from one address; ten times as many from all."""
    show_prompts: bool = False
    """Administrators may see beginnings of recorded conversations beside the prefixes that they are."""
    trace_url: TraceUrl | None = None
    """Where a trace is looked at, with `{trace_id}` in it: `https://jaeger.example.com/trace/{trace_id}`."""
