"""SGLang's `bootstrap_*` fields, which say where a prefill and a decode engine meet for each prompt."""

from collections.abc import Sequence
from typing import Protocol

from radixway.core.http import BadBodyError
from radixway.engine.engine_request import BootstrapRoom

_ROOMS = 2**63
_DEFAULT_PORT = 8998  # SGLang's


class BootstrapFields(Protocol):
    """A body that may name rooms: a list has an entry for each prompt, one number counts up from there."""

    @property
    def bootstrap_host(self) -> str | list[str] | None: ...

    @property
    def bootstrap_port(self) -> int | list[int | None] | None: ...

    @property
    def bootstrap_room(self) -> int | list[int] | None: ...


def parse_rooms(body: BootstrapFields, count: int) -> Sequence[BootstrapRoom | None]:
    """The room of each of `count` generations; None for all if the body names none.

    Raises BadBodyError (400) naming the field at fault.
    """
    given = body.bootstrap_room
    if given is None:
        return [None] * count
    if body.bootstrap_host is None:
        raise BadBodyError(
            "bootstrap_room needs bootstrap_host", param="bootstrap_host", code="missing_field"
        )
    numbers = given if isinstance(given, list) else list(range(given, given + count))
    hosts, ports = body.bootstrap_host, body.bootstrap_port
    hosts = hosts if isinstance(hosts, list) else [hosts] * count
    ports = ports if isinstance(ports, list) else [ports] * count
    for name, values in (("room", numbers), ("host", hosts), ("port", ports)):
        if len(values) != count:
            message = f"bootstrap_{name} has {len(values)} entries for {count} answers"
            raise BadBodyError(message, param=f"bootstrap_{name}", code="invalid_value")
    return [_make_room(*each) for each in zip(hosts, ports, numbers, strict=True)]


def _make_room(host: str, port: int | None, number: int) -> BootstrapRoom:
    port = _DEFAULT_PORT if port is None else port
    if not 0 <= number < _ROOMS:
        message = f"bootstrap_room must be at least 0 and below 2**63, not {number}"
        raise BadBodyError(message, param="bootstrap_room", code="invalid_value")
    if not 1 <= port <= 65535:
        message = f"bootstrap_port must be between 1 and 65535, not {port}"
        raise BadBodyError(message, param="bootstrap_port", code="invalid_value")
    if not host or len(host) > 255:
        raise BadBodyError("bootstrap_host is no host", param="bootstrap_host", code="invalid_value")
    return BootstrapRoom(host.removeprefix("[").removesuffix("]"), port, number)
