"""Policies: each orders candidate workers for a request, a short file each."""

import random

from radixway.config import (
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
)
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.custom import load_policy
from radixway.routing.policies.expected_time import ExpectedTime
from radixway.routing.policies.kv_aware import KvAware
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.policies.power_of_two import PowerOfTwo
from radixway.routing.policies.prefix_affinity import PrefixAffinity
from radixway.routing.policies.random_choice import RandomChoice
from radixway.routing.policies.round_robin import RoundRobin
from radixway.routing.policies.session import Session
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
    "Session",
    "StickyLeastLoaded",
    "View",
    "make_policy",
]


def make_policy(config: AnyPolicy, rng: random.Random) -> Policy:
    """A fresh policy as configured. `rng` is what those that draw lots draw from.

    Raises ConfigError: one of somebody's own cannot be loaded.
    """
    match config:
        case RoundRobinPolicy():
            return RoundRobin()
        case RandomPolicy():
            return RandomChoice(rng)
        case LeastLoadedPolicy():
            return LeastLoaded()
        case PowerOfTwoPolicy():
            return PowerOfTwo(rng)
        case SessionPolicy():
            return Session(config)
        case StickyLeastLoadedPolicy():
            return StickyLeastLoaded(config)
        case PrefixAffinityPolicy():
            return PrefixAffinity(config, rng)
        case KvAwarePolicy():
            return KvAware(config)
        case ExpectedTimePolicy():
            return ExpectedTime(config)
        case CustomPolicy():
            return load_policy(config)
