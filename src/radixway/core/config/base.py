"""Base class of every section of the configuration.

Where Radixway keeps what it prepares and remembers.

URLs of Redis and Valkey servers, which may hold a password.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr


class ConfigError(Exception):
    """The configuration cannot be used; the message names each place and what is wrong there."""


class ConfigSection(BaseModel):
    """A part of the tree: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_off(value: Any) -> Any:
    """`off` for what YAML makes of the word without quotes."""
    return "off" if value is False else value


MAY_BE_OFF = BeforeValidator(parse_off)
"""Of a field that has `off` among its words."""


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
