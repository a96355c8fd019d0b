"""The policies by which workers are chosen, and their parameters.

A policy is its name, `kv_aware`, with parameters, `kv_aware:overlap_weight=8`, or a mapping of both, `{name:
kv_aware, overlap_weight: 8}`. A dotted path names a class of one's own.
"""

from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Discriminator, Field, TypeAdapter, ValidationError

from radixway.core.config.base import ConfigSection
from radixway.core.config.yaml_file import describe_mistake


class RoundRobinPolicyConfig(ConfigSection):
    """Round robin, whatever the load."""

    name: Literal["round_robin"] = "round_robin"


class RandomPolicyConfig(ConfigSection):
    """Chooses any worker, whatever the load."""

    name: Literal["random"] = "random"


class LeastLoadedPolicyConfig(ConfigSection):
    """Prefers the worker with the fewest running requests."""

    name: Literal["least_loaded"] = "least_loaded"


class PowerOfTwoPolicyConfig(ConfigSection):
    """The less loaded of two drawn at random."""

    name: Literal["power_of_two"] = "power_of_two"


class SessionPolicyConfig(ConfigSection):
    """Sends all requests of a session to one worker (see `routing.session`)."""

    name: Literal["session"] = "session"
    ttl_s: float = Field(default=3600, gt=0)
    """How long a session that asks nothing stays with its worker."""


class StickyLeastLoadedPolicyConfig(ConfigSection):
    """Sends all requests of a session to one worker while it is not much busier than the idlest one.

    A bond is broken when the worker has more than `break_margin` requests in flight beyond the least loaded
    candidate, and also more than `break_ratio` times as many.
    """

    name: Literal["sticky_least_loaded"] = "sticky_least_loaded"
    break_margin: int | None = Field(default=2, ge=0)
    """Requests. None: no bond is broken for load."""
    break_ratio: float = Field(default=1.25, ge=1, allow_inf_nan=False)
    """With many requests in flight, a few more are noise. 1: the margin alone decides."""
    ttl_s: float = Field(default=3600, gt=0)
    """How long a session that asks nothing stays with its worker."""
    most_sessions: int = Field(default=1_000_000, ge=1)
    """Bonds kept; of more the one that was idle longest goes."""


class PrefixAffinityPolicyConfig(ConfigSection):
    """Ray Serve's `PrefixCacheAffinityRouter`: balanced queues, then seen text, then the emptiest cache."""

    name: Literal["prefix_affinity"] = "prefix_affinity"
    imbalanced_threshold: float = Field(default=10, ge=0)
    """Longest minus shortest queue, in requests, above which load alone decides."""
    match_rate_threshold: float = Field(default=0.1, ge=0, le=1)
    """Share of the text that must have been seen by a worker to go there for it."""
    do_eviction: bool = False
    """Evict old texts by the three parameters below."""
    eviction_threshold_chars: int = Field(default=400_000, ge=1)
    """Characters kept of one worker before any are evicted."""
    eviction_target_chars: int = Field(default=360_000, ge=0)
    """Characters left after an eviction."""
    eviction_interval_secs: float = Field(default=10, gt=0)
    """Seconds between evictions."""
    max_chars: int = Field(default=64_000_000, ge=1)
    """Characters kept of one worker at most, whatever `do_eviction` says."""


class CostPolicyConfig(ConfigSection):
    """Costs of a candidate, by what it has cached in which kind of memory."""

    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """0: the lowest cost. Above: drawn by softmax over the costs, scaled to [0, 1] between the candidates."""
    host_credit: float = Field(default=0.75, ge=0, le=1)
    """Value of a block in host memory relative to device memory."""
    disk_credit: float = Field(default=0.25, ge=0, le=1)
    """The same of a block on disk."""


class KvAwarePolicyConfig(CostPolicyConfig):
    """NVIDIA Dynamo's cost in blocks: what there is to prefill, plus what the worker holds in use."""

    name: Literal["kv_aware"] = "kv_aware"
    overlap_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Weight of the prefill, and so of the prefix that needs none, beside the load of decoding."""


class ExpectedTimePolicyConfig(CostPolicyConfig):
    """Seconds until the first token, plus what this slows down the answers already running there."""

    name: Literal["expected_time"] = "expected_time"
    slowdown: float = Field(default=0.02, ge=0, allow_inf_nan=False)
    """Seconds that each second in which the whole prompt would be prefilled costs a request there."""


class CustomPolicyConfig(ConfigSection):
    """A class of your own; its dotted path stands in place of a name, its parameters as with any other."""

    name: Literal["custom"] = "custom"
    path: str
    """`package.module.Class`: a subclass of `radixway.routing.policies.Policy`."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the class."""


AnyPolicy = (
    RoundRobinPolicyConfig
    | RandomPolicyConfig
    | LeastLoadedPolicyConfig
    | PowerOfTwoPolicyConfig
    | SessionPolicyConfig
    | StickyLeastLoadedPolicyConfig
    | PrefixAffinityPolicyConfig
    | KvAwarePolicyConfig
    | ExpectedTimePolicyConfig
    | CustomPolicyConfig
)


def _spell_out(value: Any) -> Any:
    """Return `name:key=value` as a mapping, and a dotted path as a custom policy."""
    if isinstance(value, str):
        name, *parameters = value.split(":")
        spelled: dict[str, Any] = {"name": name.strip()}
        for parameter in parameters:
            key, equals, given = parameter.partition("=")
            if not equals or key.strip() in spelled:
                raise ValueError(
                    f"{value!r}: after the name come parameters, `key=value`, each once, not {parameter!r}"
                )
            spelled[key.strip()] = yaml.safe_load(given) if "." in name else given.strip()
        value = spelled
    if isinstance(value, dict) and "." in str(value.get("name")):
        own = {key: given for key, given in value.items() if key != "name"}
        return {"name": "custom", "path": value["name"], "parameters": own}
    return value


PolicyConfig = Annotated[
    Annotated[AnyPolicy, Discriminator("name")],
    BeforeValidator(_spell_out),
]

_adapter: TypeAdapter[AnyPolicy] = TypeAdapter(PolicyConfig)


def parse_policy(text: str) -> AnyPolicy:
    """A policy as written on a command line. Raises ValueError that says what is wrong with `text`."""
    try:
        return _adapter.validate_python(text)
    except ValidationError as error:
        mistake = error.errors()[0]
        where = ".".join(str(part) for part in mistake["loc"][1:])
        reason = describe_mistake(mistake)
        raise ValueError(f"policy {text!r}: {where + ': ' if where else ''}{reason}") from None
