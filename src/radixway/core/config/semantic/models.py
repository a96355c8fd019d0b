"""The models that may answer: prices, policies, how they are told to think, where they run."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from radixway.core.config.base import ConfigSection
from radixway.core.config.pricing import ModelPricing

_HOST = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?|\[?[0-9A-Fa-f:]+\]?")


def _check_address(address: str) -> str:
    if not _HOST.fullmatch(address):
        raise ValueError(
            f"an address is an IP or a name alone, 10.0.0.7 or gpu1.internal, not {address!r}: "
            "no http://, no path, and the port under `port`"
        )
    return address


Address = Annotated[str, AfterValidator(_check_address)]
ModelName = Annotated[str, Field(min_length=1, max_length=256)]
Share = Annotated[float, Field(ge=0, le=1)]
"""A probability, similarity or confidence."""


class PiiPolicy(ConfigSection):
    """Which personal data a model may be shown."""

    allow_by_default: bool = False
    """All of it: nothing is looked for."""
    pii_types_allowed: tuple[str, ...] = ()
    """Types that it may be shown although `allow_by_default` is false."""


class LoraAdapterConfig(ConfigSection):
    """An adapter that the model's workers serve under its own name."""

    name: ModelName
    """What the worker calls it."""
    description: str = ""
    """For people; nothing reads it."""


class ModelParams(ConfigSection):
    """One model, under `model_config`."""

    reasoning_family: str | None = None
    """Its entry in `reasoning_families`; a model without one is never told whether to think."""
    preferred_endpoints: tuple[str, ...] = ()
    """Names of `vllm_endpoints` that answer for it."""
    pii_policy: PiiPolicy | None = None
    """Without one, all is allowed."""
    pricing: ModelPricing | None = None
    loras: tuple[LoraAdapterConfig, ...] = ()


class VllmEndpoint(ConfigSection):
    """A worker: `http://address:port`. It joins those under `workers`."""

    name: str = Field(min_length=1)
    """What `preferred_endpoints` call it, and the pool of its worker."""
    address: Address
    """Its host."""
    port: int = Field(ge=1, le=65535)
    """Its port."""
    weight: int = Field(default=1, ge=0)
    """Read and checked; how requests are shared among workers is for `routing`."""
    models: tuple[ModelName, ...] = ()
    """Read from the worker where not given."""
    health_check_path: str | None = None
    """Read and ignored: workers are watched as `routing.health` says."""

    @property
    def url(self) -> str:
        """Its address as a worker's."""
        host = f"[{self.address}]" if ":" in self.address and "[" not in self.address else self.address
        return f"http://{host}:{self.port}"


class ReasoningFamily(ConfigSection):
    """The switch by which models of one family are told to think."""

    type: Literal["chat_template_kwargs", "reasoning_effort", "thinking"]
    """`chat_template_kwargs.<parameter>: true|false`; `<parameter>: <effort>`, a dotted parameter being
    nested; or `<parameter>: {type: enabled|disabled}`."""
    parameter: str = Field(min_length=1)
    """The field, or the template's argument, that says whether to think."""
    off: str = "low"
    """The effort that stands for off, where the client gave none."""


REASONING_FAMILIES: dict[str, ReasoningFamily] = {
    "deepseek": ReasoningFamily(type="chat_template_kwargs", parameter="thinking"),
    "qwen3": ReasoningFamily(type="chat_template_kwargs", parameter="enable_thinking"),
    "gpt-oss": ReasoningFamily(type="reasoning_effort", parameter="reasoning_effort"),
    "gpt": ReasoningFamily(type="reasoning_effort", parameter="reasoning_effort"),
}
"""Known without configuration."""
