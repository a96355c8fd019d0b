"""Keys under `scale.planner`: what is promised, what an engine can do, how calmly to follow."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from radixway.core.config.base import ConfigSection

_DAY_S = 86_400


class _PlannerFigures(ConfigSection):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ObjectiveConfig(_PlannerFigures):
    """The latencies that a model's clients are promised."""

    ttft_s: float = Field(default=2.0, ge=1e-6, le=_DAY_S)
    """Seconds to the first token …"""
    ttft_percentile: float = Field(default=0.9, gt=0.0, lt=1.0)
    """… of this share of requests."""
    itl_s: float = Field(default=0.05, ge=1e-6, le=_DAY_S)
    """Mean seconds between the tokens of an answer."""


class ProfileConfig(_PlannerFigures):
    """The speed of one replica: the constants of `simulate --engine`, measured by `radixway plan profile`.

    The defaults stand for a model of some 8 B parameters on one data-centre GPU.
    """

    step_s: float = Field(default=0.008, ge=0, le=_DAY_S)
    """What a step costs that does nothing."""
    prefill_s: float = Field(default=1 / 12_000, gt=0, le=_DAY_S)
    """For each token prefilled."""
    decode_s: float = Field(default=0.000_2, ge=0, le=_DAY_S)
    """For each request that decodes, in each step."""
    context_s: float = Field(default=0.000_000_02, ge=0, le=_DAY_S)
    """For each token that a decoding request attends to."""
    attention_s: float = Field(default=0.0, ge=0, le=_DAY_S)
    """For each token prefilled and each of the prompt's tokens before it."""
    step_tokens: int = Field(default=2048, ge=1)
    """Tokens computed in a step at most."""
    max_running: int = Field(default=256, ge=1)
    """Requests in prefill or decode at most."""
    kv_tokens: int | None = Field(default=None, ge=1)
    """Tokens its KV cache holds; None: more than it ever needs."""
    startup_s: float = Field(default=60.0, ge=0, le=_DAY_S)
    """From asking for a replica to its first request."""


class PlannedModelConfig(_PlannerFigures):
    """Settings for planning one model."""

    objective: ObjectiveConfig = ObjectiveConfig()
    profile: ProfileConfig = ProfileConfig()
    min_replicas: int = Field(default=1, ge=1, le=10_000)
    """Of each role."""
    max_replicas: int = Field(default=16, ge=1, le=10_000)
    """Of each role."""

    @model_validator(mode="after")
    def _check_replica_range(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas must be at least min_replicas")
        return self


class PlannerConfig(PlannedModelConfig):
    """The planner of replica counts. It proposes; Ray, Kubernetes or people start and stop them."""

    models: dict[str, PlannedModelConfig] = Field(default_factory=dict)
    """Models that differ from what stands above, by name; each whole in itself."""
    load_interval_s: float = Field(default=5.0, ge=0.1, le=600)
    """How often what is queued and running is looked at."""
    interval_s: float = Field(default=180.0, ge=1, le=_DAY_S)
    """How often the arrivals of the next interval are forecast: the floor under what the load asks for."""
    forecast: Literal["kalman", "holt", "arima", "constant"] = "kalman"
    """By which model; `constant` expects the last interval again and needs no statistics library."""
    forecast_share: float = Field(default=0.8, ge=0.5, lt=1)
    """Arrivals are expected not to exceed what is planned for with this probability."""
    history: int = Field(default=60, ge=4, le=2000)
    """Intervals that a forecast looks back on."""
    scale_down_patience_s: float = Field(default=300.0, ge=0)
    """Replicas leave once fewer would have done for so long."""
    least_utilization: float = Field(default=0.7, gt=0, lt=1)
    """Replicas are kept while queue or decoding are above this share of what the objective allows …"""
    most_utilization: float = Field(default=1.0, gt=0)
    """… and added above this one."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.most_utilization <= self.least_utilization:
            raise ValueError("most_utilization must be above least_utilization")
        if self.interval_s < self.load_interval_s:
            raise ValueError("interval_s must be at least load_interval_s")
        return self

    def for_model(self, model: str) -> PlannedModelConfig:
        """Return the settings that hold for `model`."""
        return self.models.get(model, self)
