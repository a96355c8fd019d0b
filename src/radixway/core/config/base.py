"""The base class of every section, and the types of values that several sections have."""

import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr


class ConfigError(Exception):
    """The configuration cannot be used; the message names each place and what is wrong there."""


class ConfigSection(BaseModel):
    """A part of the tree: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_off(value: Any) -> Any:
    """`off` for what YAML makes of the word without quotes."""
    return "off" if value is False else value


MAY_BE_OFF = BeforeValidator(parse_off)
"""Makes `off` a valid value of a field, although YAML reads it as false."""


def radixway_home() -> Path:
    """`RADIXWAY_HOME`, or `radixway` where the user's programs keep their data. It need not exist yet."""
    given = os.environ.get("RADIXWAY_HOME")
    if given:
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "radixway"


def _check_redis(url: SecretStr) -> SecretStr:
    text = re.sub(r"^valkey(s?)://", r"redis\1://", url.get_secret_value())
    if not re.match(r"(rediss?|unix)://.", text):
        raise ValueError("this must be redis://HOST:PORT/DB, rediss://… or unix://PATH")
    return SecretStr(text)


RedisUrl = Annotated[SecretStr, AfterValidator(_check_redis)]


def _check_bearer(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a key that goes into a header must be printable ASCII")
    return secret


def _check_host(host: str) -> str:
    if not (host and host.isascii() and host.isprintable()):
        raise ValueError("this must be a name or an address")
    return host


Host = Annotated[str, AfterValidator(_check_host)]

Bearer = Annotated[SecretStr, AfterValidator(_check_bearer)]


def _check_network(network: str) -> str:
    ip_network(network)
    return network


Network = Annotated[str, AfterValidator(_check_network)]
"""A network such as `10.1.0.0/16`, or a single address."""

_ZMQ_ENDPOINT = re.compile(r"ipc://.+|tcp://([^:/\[\]@]+|\[[^]]+\]):(\*|\d{1,5})")


def _check_zmq_endpoint(endpoint: str) -> str:
    address = _ZMQ_ENDPOINT.fullmatch(endpoint)
    if address is None or ((address[2] or "*") != "*" and int(address[2]) > 65535):
        raise ValueError(
            f"{endpoint!r} is no ZeroMQ endpoint: give tcp://HOST:PORT, tcp://*:PORT or ipc://PATH"
        )
    return endpoint


ZmqEndpoint = Annotated[str, AfterValidator(_check_zmq_endpoint)]
Port = Annotated[int, Field(ge=1, le=65535)]
Share = Annotated[float, Field(ge=0, le=1)]
"""A probability, similarity or confidence."""
