"""The typed tree behind `radixway.yaml`: sections, loading, errors that name path and line."""

from radixway.config.engine import EngineConfig
from radixway.config.sections import (
    GatewaySection,
    HealthSection,
    PipelineSection,
    PolicyName,
    RetrySection,
    Role,
    RoutingSection,
    TelemetrySection,
    WorkerSection,
    check_worker_url,
)
from radixway.config.tree import Config, ConfigError, load_config

__all__ = [
    "Config",
    "ConfigError",
    "EngineConfig",
    "GatewaySection",
    "HealthSection",
    "PipelineSection",
    "PolicyName",
    "RetrySection",
    "Role",
    "RoutingSection",
    "TelemetrySection",
    "WorkerSection",
    "check_worker_url",
    "load_config",
]
