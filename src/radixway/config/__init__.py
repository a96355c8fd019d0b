"""The typed tree behind `radixway.yaml`: sections, loading, errors that name path and line."""

from radixway.config.base import ConfigError
from radixway.config.chat import ChatSection
from radixway.config.chat_webhooks import ChatWebhooksSection
from radixway.config.console import ConsoleSection
from radixway.config.disaggregation import DisaggregationSection, TransferSection
from radixway.config.discovery import (
    DiscoverySection,
    DnsSection,
    FoundTraits,
    KubernetesSection,
    RegistrationSection,
)
from radixway.config.encoders import EncodersSection
from radixway.config.engine import EngineConfig
from radixway.config.ext_proc import ExtProcSection, ExtProcTlsSection
from radixway.config.home import radixway_home
from radixway.config.kv_events import KvEventsSection
from radixway.config.limits import LimitsSection, ServerLimitsSection, WorkerLimitsSection
from radixway.config.logs import LogsSection
from radixway.config.planner import ObjectiveSection, PlannedModelSection, PlannerSection, ProfileSection
from radixway.config.policies import (
    AnyPolicy,
    CustomPolicy,
    ExpectedTimePolicy,
    KvAwarePolicy,
    LeastLoadedPolicy,
    PowerOfTwoPolicy,
    PrefixAffinityPolicy,
    RandomPolicy,
    RoundRobinPolicy,
    SessionPolicy,
    StickyLeastLoadedPolicy,
    parse_policy,
)
from radixway.config.pressure import BreakerSection, HedgeSection, QueueSection
from radixway.config.pricing import Pricing
from radixway.config.ray import RayAutoscalingSection, RayEngineSection, RayGatewaySection, RaySection
from radixway.config.scale import ScaleSection, SyncSection
from radixway.config.sections import (
    GatewaySection,
    HealthSection,
    PipelineSection,
    RetrySection,
    Role,
    RoutingSection,
    TelemetrySection,
    TokenizeSection,
    WeightsSection,
    WorkerSection,
    check_worker_url,
)
from radixway.config.semantic_cache import MilvusSection, SemanticCacheSection, ValkeySection
from radixway.config.shared_limits import SharedLimitsSection
from radixway.config.simulations import SimulationsSection
from radixway.config.tenants import (
    DEFAULT_TENANT,
    KeySection,
    QuotasSection,
    RatesSection,
    TenantSection,
    TenantsSection,
    UsageSection,
)
from radixway.config.tracing import TracingSection
from radixway.config.trajectories import AbortSection, SessionsSection, TrajectoriesSection
from radixway.config.tree import Config, load_config

__all__ = [
    "DEFAULT_TENANT",
    "AbortSection",
    "AnyPolicy",
    "BreakerSection",
    "ChatSection",
    "ChatWebhooksSection",
    "Config",
    "ConfigError",
    "ConsoleSection",
    "CustomPolicy",
    "DisaggregationSection",
    "DiscoverySection",
    "DnsSection",
    "EncodersSection",
    "EngineConfig",
    "ExpectedTimePolicy",
    "ExtProcSection",
    "ExtProcTlsSection",
    "FoundTraits",
    "GatewaySection",
    "HealthSection",
    "HedgeSection",
    "KeySection",
    "KubernetesSection",
    "KvAwarePolicy",
    "KvEventsSection",
    "LeastLoadedPolicy",
    "LimitsSection",
    "LogsSection",
    "MilvusSection",
    "ObjectiveSection",
    "PipelineSection",
    "PlannedModelSection",
    "PlannerSection",
    "PowerOfTwoPolicy",
    "PrefixAffinityPolicy",
    "Pricing",
    "ProfileSection",
    "QueueSection",
    "QuotasSection",
    "RandomPolicy",
    "RatesSection",
    "RayAutoscalingSection",
    "RayEngineSection",
    "RayGatewaySection",
    "RaySection",
    "RegistrationSection",
    "RetrySection",
    "Role",
    "RoundRobinPolicy",
    "RoutingSection",
    "ScaleSection",
    "SemanticCacheSection",
    "ServerLimitsSection",
    "SessionPolicy",
    "SessionsSection",
    "SharedLimitsSection",
    "SimulationsSection",
    "StickyLeastLoadedPolicy",
    "SyncSection",
    "TelemetrySection",
    "TenantSection",
    "TenantsSection",
    "TokenizeSection",
    "TracingSection",
    "TrajectoriesSection",
    "TransferSection",
    "UsageSection",
    "ValkeySection",
    "WeightsSection",
    "WorkerLimitsSection",
    "WorkerSection",
    "check_worker_url",
    "load_config",
    "parse_policy",
    "radixway_home",
]
