"""The endpoint at which a worker publishes its KV events."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from radixway.core.config.base import ConfigSection, parse_off

_ENDPOINT = re.compile(r"ipc://.+|tcp://[^:\[\]/]+:(\*|\d{1,5})|tcp://\[[^]]+\]:(\*|\d{1,5})")


def check_endpoint(endpoint: str) -> str:
    """A ZeroMQ endpoint. Raises ValueError unless it is `tcp://HOST:PORT` or `ipc://PATH`."""
    address = _ENDPOINT.fullmatch(endpoint)
    if address is None or any(port.isdigit() and int(port) > 65535 for port in address.groups("")):
        raise ValueError(f"{endpoint!r} is no endpoint: give tcp://*:PORT, tcp://HOST:PORT or ipc://PATH")
    return endpoint


Endpoint = Annotated[str, AfterValidator(check_endpoint)]


class KvEventsConfig(ConfigSection):
    """One worker's publisher. Its data-parallel ranks count their ports up from these."""

    endpoint: Endpoint
    """Where it publishes: `tcp://HOST:5557` and `ipc://PATH` are connected to; `tcp://*:5557` is bound here,
    for an engine that is told to connect to the gateway."""
    replay_endpoint: Endpoint | None = None
    """Where it answers for what was missed. Without it a gateway that starts after its engine, or misses
    a message, cannot know what the engine holds until that is restarted or cleared."""
    topic: str = ""
    """What the first frame of its messages begins with."""
    ranks: int = Field(default=1, ge=1, le=1024)
    """Its data-parallel ranks."""

    @model_validator(mode="after")
    def _check_reachable(self) -> Self:
        if self.replay_endpoint is not None and "*" in self.replay_endpoint:
            raise ValueError("replay_endpoint is the worker's: give its host, not *")
        if self.endpoint.endswith(":*"):
            raise ValueError("endpoint needs a port that the worker can know, not *")
        if self.ranks > 1 and not all(
            endpoint.startswith("tcp://") for endpoint in (self.endpoint, self.replay_endpoint) if endpoint
        ):
            raise ValueError("several ranks need tcp endpoints, whose ports are counted up")
        return self


def _parse_events(value: Any) -> Any:
    """One mistake is told, not one for each of the forms that it is none of."""
    value = parse_off(value)
    if value in ("auto", "off") or isinstance(value, KvEventsConfig):
        return value
    if not isinstance(value, dict):
        raise ValueError("this must be auto, off, or a mapping with an endpoint")
    try:
        return KvEventsConfig.model_validate(value)
    except ValidationError as error:
        mistake = error.errors()[0]
        place = "".join(f"{part}: " for part in mistake["loc"])
        raise ValueError(place + mistake["msg"].removeprefix("Value error, ")) from None


KvEventsSetting: TypeAlias = Annotated[
    Literal["auto", "off"] | KvEventsConfig, BeforeValidator(_parse_events)
]
