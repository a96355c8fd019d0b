"""Policies by dotted path: written in every form that ours are, refused in words."""

import sys
from types import SimpleNamespace

import pytest

from radixway.core.config import ConfigError, load_config, parse_policy
from radixway.routing import RoutingRequest, Selector
from radixway.routing.policies import LeastLoaded, Policy, Scores
from support.routing_requests import workers


class Last(Policy):
    """The last of them, by so much."""

    name = "last"

    def __init__(self, by: float = 1) -> None:
        self.by = by

    def score(self, request, candidates, view):
        return Scores([-self.by * number for number, _ in enumerate(candidates)])


@pytest.fixture(autouse=True)
def under_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(Last=Last, None_=1))


def chosen(policy):
    selector = Selector(load_config(overrides={"routing": {"policy": policy}}).routing)
    fleet = workers(3)
    for worker in fleet:
        selector.add_worker(worker)
    return fleet.index(selector.select_worker(RoutingRequest(), fleet).worker), selector.policy_for_model(
        None
    )


@pytest.mark.parametrize("written", ["mine.Last:by=2", {"name": "mine.Last", "by": 2}])
def test_it_decides_with_its_parameters(written):
    place, policy = chosen(written)
    assert (place, policy.by) == (2, 2)


def test_what_is_in_effect_can_be_read_again():
    shown = load_config(overrides={"routing": {"policy": "mine.Last:by=2"}}).model_dump(mode="json")
    assert parse_policy("mine.Last:by=2") == load_config(overrides=shown).routing.policy


def test_a_model_may_have_one():
    routing = load_config(overrides={"routing": {"model_policies": {"m": "mine.Last"}}}).routing
    selector = Selector(routing)
    assert isinstance(selector.policy_for_model("m"), Last) and not isinstance(
        selector.policy_for_model("n"), Last
    )


def test_ours_have_paths_too():
    assert isinstance(chosen("radixway.routing.policies.LeastLoaded")[1], LeastLoaded)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("nowhere.Last", "'nowhere.Last' cannot be loaded"),
        ("mine.First", "'mine.First' cannot be loaded"),
        ("mine.None_", "'mine.None_' is no policy"),
        ("mine.Last:weight=2", "'mine.Last' cannot be built"),
    ],
)
def test_what_cannot_be_one_is_refused_in_words(written, said):
    with pytest.raises(ConfigError, match=said):
        chosen(written)
