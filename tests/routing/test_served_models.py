"""Which model `default` stands for."""

import re
from collections import Counter

import pytest

from radixway.core.config import ConfigError, WorkerSettings, load_config
from radixway.core.config.routing import ModelSplit
from radixway.core.pipeline import CHAT_COMPLETIONS, Request, TenantPolicy
from radixway.core.telemetry import Journal
from radixway.routing import DefaultModelResolver, WorkerRegistry


def resolver(*workers: dict, configured: str = "", auto: str = "auto") -> DefaultModelResolver:
    registry = WorkerRegistry()
    for number, fields in enumerate(workers):
        registry.add_worker(WorkerSettings(url=f"http://w{number}", **fields))
    return DefaultModelResolver(registry, lambda: configured, lambda name: name == auto)


SILENT = {"models": []}
TWO = {"models": ["a", "b"]}
OTHER = {"models": ["c"], "pools": ["mine"]}


@pytest.mark.parametrize(
    ("workers", "more", "tenancy", "model"),
    [
        ([], {}, None, None),
        ([SILENT], {}, None, None),
        ([SILENT, TWO, OTHER], {}, None, "a"),
        ([TWO, OTHER], {"configured": "c"}, None, "c"),
        ([TWO, OTHER], {"configured": "gone"}, None, "a"),
        ([TWO, OTHER], {}, TenantPolicy("t", models=re.compile("b|c")), "b"),
        ([TWO, OTHER], {"configured": "a"}, TenantPolicy("t", models=re.compile("b|c")), "b"),
        ([TWO, OTHER], {}, TenantPolicy("t", pools=frozenset({"mine"})), "c"),
        ([TWO], {}, TenantPolicy("t", models=re.compile("x")), None),
        ([TWO, {"models": ["default"]}], {}, None, None),
        ([TWO], {"auto": "default"}, None, None),
    ],
)
def test_default_is_the_configured_model_or_the_first_that_may_be_used(workers, more, tenancy, model):
    assert resolver(*workers, **more).resolve_default_model(tenancy) == model


ALIASES = {"claude-*": "default", "best": "c", "b?": "a", "a": "c", "auto": "a", "lost": "gone"}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("default", "a"),
        ("claude-sonnet-4-5", "a"),
        ("best", "c"),
        ("bx", "a"),
        ("b", None),
        ("a", None),
        ("auto", None),
        ("claude", None),
        ("unknown", None),
        ("lost", "gone"),
    ],
)
def test_an_alias_stands_for_its_model_where_no_worker_serves_one_of_that_name(name, model):
    registry = WorkerRegistry()
    for number, fields in enumerate((TWO, OTHER)):
        registry.add_worker(WorkerSettings(url=f"http://w{number}", **fields))
    models = DefaultModelResolver(registry, lambda: "", lambda name: name == "auto", ALIASES)
    assert models.resolve_model(name, None) == model
    assert models.list_aliases(None) == {"best": "c"}


def test_an_alias_of_the_default_is_one_of_the_tenants_models():
    registry = WorkerRegistry()
    registry.add_worker(WorkerSettings(url="http://w", **TWO))
    models = DefaultModelResolver(registry, lambda: "", lambda _: False, {"claude-*": "default"})
    assert models.resolve_model("claude-3", TenantPolicy("t", models=re.compile("b"))) == "b"


@pytest.mark.parametrize("aliases", [{"": "a"}, {"a": ""}, {"a": "b*"}])
def test_aliases_that_make_no_sense_are_refused(aliases):
    with pytest.raises(ConfigError, match="routing.model_aliases"):
        load_config(overrides={"routing": {"model_aliases": aliases}})


def test_a_split_gives_each_model_its_share_of_the_requests_and_says_so():
    registry = WorkerRegistry()
    registry.add_worker(WorkerSettings(url="http://w", models=["a", "b", "c"]))
    split = ModelSplit(split={"a": 9, "b": 1, "c": 0})
    models = DefaultModelResolver(registry, str, lambda name: False, {"fast": split})
    drawn = Counter()
    for number in range(2000):
        request = Request(
            f"r{number}", CHAT_COMPLETIONS, CHAT_COMPLETIONS.path, Journal("r"), raw=b"{}", model="fast"
        )
        model = models.resolve_model("fast", None, request)
        drawn[model] += 1
        ((step, _, told),) = request.journal.entries
        assert (step, told["model"], told["weights"], told["by"]) == (
            "split",
            model,
            {"a": 9, "b": 1},
            "request",
        )
    assert drawn.keys() == {"a", "b"}
    assert drawn["b"] == pytest.approx(200, abs=60), "the ids are the same in every run"
