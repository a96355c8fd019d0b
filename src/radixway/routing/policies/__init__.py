"""Policies: each orders candidate workers for a request, a short file each."""

from radixway.config import PolicyName
from radixway.routing.policies.base import Policy
from radixway.routing.policies.least_loaded import LeastLoaded
from radixway.routing.policies.power_of_two import PowerOfTwo
from radixway.routing.policies.round_robin import RoundRobin

__all__ = ["LeastLoaded", "Policy", "PowerOfTwo", "RoundRobin", "make_policy"]


def make_policy(name: PolicyName) -> Policy:
    """A fresh policy of that name, as configuration names it."""
    policies: dict[PolicyName, type[LeastLoaded] | type[PowerOfTwo] | type[RoundRobin]] = {
        "round_robin": RoundRobin,
        "least_loaded": LeastLoaded,
        "power_of_two": PowerOfTwo,
    }
    return policies[name]()
