"""Policies: each gives every candidate worker a cost. To add one, see `base.py`, then `make_policy`."""

from importlib import import_module
from random import Random

from radixway.core.config import (
    AnyPolicy,
    ConfigError,
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
from radixway.routing.policies.expected_time import ExpectedTime
from radixway.routing.policies.kv_aware import KvAware
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.policies.prefix_affinity import PrefixAffinity
from radixway.routing.policies.session import SessionAffinity, StickyLeastLoaded
from radixway.routing.policies.simple import PowerOfTwo, RandomChoice, RoundRobin

__all__ = ["LeastLoaded", "Policy", "Scores", "View", "make_policy"]


def make_policy(config: AnyPolicy, rng: Random) -> Policy:
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
            return _load_custom_policy(config)


def _load_custom_policy(config: CustomPolicyConfig) -> Policy:
    """Build the class at the dotted path of `config` with its parameters."""
    mistake = f"routing.policy: {config.path!r}"
    module_name, _, name = config.path.rpartition(".")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise ConfigError(f"{mistake} cannot be loaded: {error}") from None
    if not isinstance(found, type) or Policy not in found.__mro__ or not hasattr(found, "name"):
        needed = "a subclass of radixway.routing.policies.Policy with a name"
        raise ConfigError(f"{mistake} is no policy: {needed}")
    try:
        policy: Policy = found(**config.parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{mistake} cannot be built: {error}") from None
    return policy
