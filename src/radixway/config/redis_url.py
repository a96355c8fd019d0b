"""URLs of Redis and Valkey servers, which may hold a password."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr


def _check_redis(url: SecretStr) -> SecretStr:
    text = re.sub(r"^valkey(s?)://", r"redis\1://", url.get_secret_value())
    if not re.match(r"(rediss?|unix)://.", text):
        raise ValueError("this must be redis://HOST:PORT/DB, rediss://… or unix://PATH")
    return SecretStr(text)


RedisUrl = Annotated[SecretStr, AfterValidator(_check_redis)]
