"""Which model `default` stands for."""

import re

import pytest

from radixway.core.config import WorkerSettings
from radixway.core.pipeline import TenantPolicy
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
