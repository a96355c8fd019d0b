"""The `scale.gateways` section: who else is there, so that each conversation has one gateway."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from radixway.config.base import ConfigSection


def _check_gateway(url: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", url):
        raise ValueError(f"{url!r} is no address of a gateway: give http://HOST:PORT")
    return url.rstrip("/")


GatewayUrl = Annotated[str, AfterValidator(_check_gateway)]


class GatewaysConfig(ConfigSection):
    """All gateways of one fleet, the same list in each: what one keeps in its memory is found from all."""

    self_url: GatewayUrl
    """This one, as it stands in `all`."""
    all: tuple[GatewayUrl, ...] = Field(min_length=2)
    """Where each reaches the others: `http://10.0.0.1:30000`."""
    key: SecretStr = Field(min_length=16)
    """Shared by them: by it each believes what another says of whose request it passes on."""

    @model_validator(mode="after")
    def _check_self_url(self) -> Self:
        if self.self_url not in self.all:
            raise ValueError(f"self_url {self.self_url} is not among all")
        if len(set(self.all)) != len(self.all):
            raise ValueError("all names a gateway twice")
        return self
