"""Loads a user's own policy class by its dotted path."""

from __future__ import annotations

from importlib import import_module

from radixway.core.config import ConfigError, CustomPolicyConfig
from radixway.routing.policies.base import Policy


def load_custom_policy(config: CustomPolicyConfig) -> Policy:
    """Build the class at `config.path` with its parameters.

    Raises:
        ConfigError: the path names no policy, or it does not take these parameters.
    """
    module_name, _, name = config.path.rpartition(".")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise ConfigError(f"routing.policy: {config.path!r} cannot be loaded: {error}") from None
    if not isinstance(found, type) or Policy not in found.__mro__ or not hasattr(found, "name"):
        raise ConfigError(
            f"routing.policy: {config.path!r} is no policy: a subclass of "
            "radixway.routing.policies.Policy with a name"
        )
    try:
        policy: Policy = found(**config.parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"routing.policy: {config.path!r} cannot be built: {error}") from None
    return policy
