"""Policies: each orders candidate workers for a request, a short file each."""

import random

from radixway.core.config import (
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
)
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.custom_policy import load_custom_policy
from radixway.routing.policies.expected_time import ExpectedTime
from radixway.routing.policies.kv_aware import KvAware
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.policies.power_of_two import PowerOfTwo
from radixway.routing.policies.prefix_affinity import PrefixAffinity
from radixway.routing.policies.random_choice import RandomChoice
from radixway.routing.policies.round_robin import RoundRobin
from radixway.routing.policies.session import SessionAffinity
from radixway.routing.policies.sticky_least_loaded import StickyLeastLoaded

__all__ = [
    "ExpectedTime",
    "KvAware",
    "LeastLoaded",
    "Policy",
    "PowerOfTwo",
    "PrefixAffinity",
    "RandomChoice",
    "RoundRobin",
    "Scores",
    "SessionAffinity",
    "StickyLeastLoaded",
    "View",
    "make_policy",
]


def make_policy(config: AnyPolicy, rng: random.Random) -> Policy:
    """Build the policy that `config` describes. `rng` is the source of randomness of those that need one.

    Raises ConfigError if a custom policy cannot be loaded.
    """
    match config:
        case RoundRobinPolicyConfig():
            return RoundRobin()
        case RandomPolicyConfig():
            return RandomChoice(rng)
        case LeastLoadedPolicyConfig():
            return LeastLoaded()
        case PowerOfTwoPolicyConfig():
            return PowerOfTwo(rng)
        case SessionPolicyConfig():
            return SessionAffinity(config)
        case StickyLeastLoadedPolicyConfig():
            return StickyLeastLoaded(config)
        case PrefixAffinityPolicyConfig():
            return PrefixAffinity(config, rng)
        case KvAwarePolicyConfig():
            return KvAware(config)
        case ExpectedTimePolicyConfig():
            return ExpectedTime(config)
        case CustomPolicyConfig():
            return load_custom_policy(config)
