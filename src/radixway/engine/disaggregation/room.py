"""Where two engines meet for one request, under SGLang's names."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class BootstrapRoom:
    """`bootstrap_host`, `bootstrap_port` and `bootstrap_room` of a request: both engines get the same."""

    host: str
    """Of the prefill engine; an IPv6 address without its brackets."""
    port: int
    number: int
    """For one request only; whoever knows it is given the KV."""
