"""What requests say of their generations in every protocol: priority, cache salt, where KV comes from."""

from collections.abc import Sequence
from typing import Protocol

from radixway.core.http import BadBodyError
from radixway.engine.engine_request import BootstrapRoom

_MAX_ROOMS = 2**63
_DEFAULT_PORT = 8998  # SGLang's
_PRIORITY_LIMIT = 2**31


class GenerationFields(Protocol):
    """A body that asks for generations.

    It may name rooms where a prefill and a decode engine meet for each prompt: a list has an entry for each,
    one number counts up from there.
    """

    priority: int | None
    cache_salt: str | None
    bootstrap_host: str | list[str] | None
    bootstrap_port: int | list[int | None] | None
    bootstrap_room: int | list[int] | None


def check_priority(priority: int | None) -> int:
    """Return `priority`, 0 for None. Raises BadBodyError (400) if it is out of range."""
    if abs(priority or 0) >= _PRIORITY_LIMIT:
        raise BadBodyError(f"priority is out of range: {priority}", param="priority")
    return priority or 0


def prefix_namespace(cache_salt: str | None, extra_key: str | None = None) -> str:
    """The namespace of a request's prefixes: shared only with the same `extra_key` (SGLang's) and
    `cache_salt`.

    Raises BadBodyError (400) for a NUL in either, which is what divides them.
    """
    for name, value in (("cache_salt", cache_salt), ("extra_key", extra_key)):
        if value and "\0" in value:
            raise BadBodyError(f"{name} must not hold a NUL character", param=name)
    return f"{extra_key}\0{cache_salt or ''}" if extra_key else cache_salt or ""


def parse_rooms(body: GenerationFields, count: int) -> Sequence[BootstrapRoom | None]:
    """The room of each of `count` generations, if `body` names any. Raises BadBodyError (400)."""
    given = body.bootstrap_room
    if given is None:
        return [None] * count
    if body.bootstrap_host is None:
        message = "bootstrap_room needs bootstrap_host"
        raise BadBodyError(message, param="bootstrap_host", code="missing_field")
    numbers = given if isinstance(given, list) else list(range(given, given + count))
    hosts, ports = body.bootstrap_host, body.bootstrap_port
    hosts = hosts if isinstance(hosts, list) else [hosts] * count
    ports = ports if isinstance(ports, list) else [ports] * count
    for name, values in (("room", numbers), ("host", hosts), ("port", ports)):
        if len(values) != count:
            message = f"bootstrap_{name} has {len(values)} entries for {count} answers"
            raise BadBodyError(message, param=f"bootstrap_{name}")
    return [_make_room(*each) for each in zip(hosts, ports, numbers, strict=True)]


def _make_room(host: str, port: int | None, number: int) -> BootstrapRoom:
    port = _DEFAULT_PORT if port is None else port
    if not 0 <= number < _MAX_ROOMS:
        message = f"bootstrap_room must be at least 0 and below 2**63, not {number}"
        raise BadBodyError(message, param="bootstrap_room")
    if not 1 <= port <= 65535:
        raise BadBodyError(f"bootstrap_port must be between 1 and 65535, not {port}", param="bootstrap_port")
    if not host or len(host) > 255:
        raise BadBodyError("bootstrap_host is no host", param="bootstrap_host")
    return BootstrapRoom(host.removeprefix("[").removesuffix("]"), port, number)
