"""The typed tree behind `radixway.yaml`: sections, loading, errors that name path and line."""

from radixway.config.base import ConfigError
from radixway.config.chat import ChatConfig
from radixway.config.chat_webhooks import ChatWebhooksConfig
from radixway.config.console import ConsoleConfig
from radixway.config.disaggregation import DisaggregationConfig, TransferConfig
from radixway.config.discovery import (
    DiscoveryConfig,
    DnsConfig,
    FoundTraits,
    KubernetesConfig,
    RegistrationConfig,
)
from radixway.config.encoders import EncodersConfig
from radixway.config.engine import EngineConfig
from radixway.config.ext_proc import ExtProcConfig, ExtProcTlsConfig
from radixway.config.home import radixway_home
from radixway.config.kv_events import KvEventsConfig
from radixway.config.limits import LimitsConfig, ServerLimitsConfig, WorkerLimitsConfig
from radixway.config.logs import LogsConfig
from radixway.config.planner import ObjectiveConfig, PlannedModelConfig, PlannerConfig, ProfileConfig
from radixway.config.policies import (
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
from radixway.config.pressure import BreakerConfig, HedgeConfig, QueueConfig
from radixway.config.pricing import ModelPricing
from radixway.config.ray import RayAutoscalingConfig, RayConfig, RayEngineConfig, RayGatewayConfig
from radixway.config.scale import ScaleConfig, SyncConfig
from radixway.config.sections import (
    GatewayConfig,
    HealthConfig,
    PipelineConfig,
    RetryConfig,
    Role,
    RoutingConfig,
    TelemetryConfig,
    TokenizeConfig,
    WeightsConfig,
    WorkerSettings,
    check_worker_url,
)
from radixway.config.semantic_cache import MilvusConfig, SemanticCacheConfig, ValkeyConfig
from radixway.config.shared_limits import SharedLimitsConfig
from radixway.config.simulations import SimulationsConfig
from radixway.config.tenants import (
    DEFAULT_TENANT,
    KeyConfig,
    QuotasConfig,
    RatesConfig,
    TenantConfig,
    TenantsConfig,
    UsageConfig,
)
from radixway.config.tracing import TracingConfig
from radixway.config.trajectories import AbortConfig, SessionsConfig, TrajectoriesConfig
from radixway.config.tree import Config, load_config

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
