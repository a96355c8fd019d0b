"""Keys for workers that only prefill or only decode: how KV goes from one to the other, and when."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from radixway.config.base import ConfigSection


class TransferConfig(ConfigSection):
    """How a worker hands KV on to another. `vllm` alone is short for `{dialect: vllm}`."""

    dialect: Literal["vllm", "sglang"]
    """Whose requests carry it: vLLM's `kv_transfer_params` or SGLang's `bootstrap_room`."""
    bootstrap_port: int = Field(default=8998, ge=1, le=65535)
    """Where an SGLang prefill worker is met: its `--disaggregation-bootstrap-port`."""


def _spell_out(value: Any) -> Any:
    return {"dialect": value} if isinstance(value, str) else value


Transfer = Annotated[TransferConfig, BeforeValidator(_spell_out)]


class DisaggregationConfig(ConfigSection):
    """When a prompt is prefilled by another worker than the one that answers.

    Not if both of the first two say that little is left to prefill, nor if the third says that it is no
    sooner. The first two are Dynamo's `isl_bounding`, names aside.
    """

    min_uncached_tokens: int = Field(default=2048, ge=0)
    """With fewer tokens to prefill the worker that answers prefills them, if …"""
    max_uncached_share: float = Field(default=0.7, ge=0, le=1)
    """… they are also a smaller share of the prompt than this."""
    by_expected_time: bool = True
    """Prefill elsewhere only if the first token is expected sooner, running answers' slowdown counted in."""
    slowdown: float = Field(default=0.05, ge=0)
    """What a second of prefill costs each answer running there, in seconds."""
