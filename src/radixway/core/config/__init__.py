"""The typed tree behind `radixway.yaml`: sections, loading, errors that name path and line."""

from radixway.core.config.base import ConfigError, radixway_home
from radixway.core.config.chat import ChatConfig, ChatWebhooksConfig
from radixway.core.config.console import ConsoleConfig
from radixway.core.config.discovery import (
    DiscoveryConfig,
    DnsConfig,
    FoundTraits,
    KubernetesConfig,
    RegistrationConfig,
)
from radixway.core.config.encoders import EncodersConfig
from radixway.core.config.engine import EngineConfig
from radixway.core.config.ext_proc import ExtProcConfig, ExtProcTlsConfig
from radixway.core.config.kv_events import KvEventsConfig
from radixway.core.config.limits import LimitsConfig, ServerLimitsConfig, WorkerLimitsConfig
from radixway.core.config.planner import ObjectiveConfig, PlannedModelConfig, PlannerConfig, ProfileConfig
from radixway.core.config.policies import (
    AnyPolicy,
    CustomPolicyConfig,
    ExpectedTimePolicyConfig,
    KvAwarePolicyConfig,
    LeastLoadedPolicyConfig,
    PowerOfTwoPolicyConfig,
    PrefixAffinityPolicyConfig,
    RandomPolicyConfig,
    RoundRobinPolicyConfig,
    SessionPolicyConfig,
    StickyLeastLoadedPolicyConfig,
    parse_policy,
)
from radixway.core.config.pressure import BreakerConfig, HedgeConfig, QueueConfig
from radixway.core.config.pricing import ModelPricing
from radixway.core.config.ray import RayAutoscalingConfig, RayConfig, RayEngineConfig, RayGatewayConfig
from radixway.core.config.scale import ScaleConfig, SharedLimitsConfig, SyncConfig
from radixway.core.config.sections import (
    DisaggregationConfig,
    GatewayConfig,
    HealthConfig,
    PipelineConfig,
    RetryConfig,
    Role,
    RoutingConfig,
    TelemetryConfig,
    TokenizeConfig,
    TransferConfig,
    WeightsConfig,
    WorkerSettings,
    check_worker_url,
)
from radixway.core.config.semantic_cache import MilvusConfig, SemanticCacheConfig, ValkeyConfig
from radixway.core.config.simulations import SimulationsConfig
from radixway.core.config.telemetry import LogsConfig, TracingConfig
from radixway.core.config.tenants import (
    DEFAULT_TENANT,
    KeyConfig,
    QuotasConfig,
    RatesConfig,
    TenantConfig,
    TenantsConfig,
    UsageConfig,
)
from radixway.core.config.trajectories import AbortConfig, SessionsConfig, TrajectoriesConfig
from radixway.core.config.tree import Config, load_config

__all__ = [
    "DEFAULT_TENANT",
    "AbortConfig",
    "AnyPolicy",
    "BreakerConfig",
    "ChatConfig",
    "ChatWebhooksConfig",
    "Config",
    "ConfigError",
    "ConsoleConfig",
    "CustomPolicyConfig",
    "DisaggregationConfig",
    "DiscoveryConfig",
    "DnsConfig",
    "EncodersConfig",
    "EngineConfig",
    "ExpectedTimePolicyConfig",
    "ExtProcConfig",
    "ExtProcTlsConfig",
    "FoundTraits",
    "GatewayConfig",
    "HealthConfig",
    "HedgeConfig",
    "KeyConfig",
    "KubernetesConfig",
    "KvAwarePolicyConfig",
    "KvEventsConfig",
    "LeastLoadedPolicyConfig",
    "LimitsConfig",
    "LogsConfig",
    "MilvusConfig",
    "ModelPricing",
    "ObjectiveConfig",
    "PipelineConfig",
    "PlannedModelConfig",
    "PlannerConfig",
    "PowerOfTwoPolicyConfig",
    "PrefixAffinityPolicyConfig",
    "ProfileConfig",
    "QueueConfig",
    "QuotasConfig",
    "RandomPolicyConfig",
    "RatesConfig",
    "RayAutoscalingConfig",
    "RayConfig",
    "RayEngineConfig",
    "RayGatewayConfig",
    "RegistrationConfig",
    "RetryConfig",
    "Role",
    "RoundRobinPolicyConfig",
    "RoutingConfig",
    "ScaleConfig",
    "SemanticCacheConfig",
    "ServerLimitsConfig",
    "SessionPolicyConfig",
    "SessionsConfig",
    "SharedLimitsConfig",
    "SimulationsConfig",
    "StickyLeastLoadedPolicyConfig",
    "SyncConfig",
    "TelemetryConfig",
    "TenantConfig",
    "TenantsConfig",
    "TokenizeConfig",
    "TracingConfig",
    "TrajectoriesConfig",
    "TransferConfig",
    "UsageConfig",
    "ValkeyConfig",
    "WeightsConfig",
    "WorkerLimitsConfig",
    "WorkerSettings",
    "check_worker_url",
    "load_config",
    "parse_policy",
    "radixway_home",
]
