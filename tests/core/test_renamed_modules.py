"""Old import paths lead to the modules of today, once each, and warn."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from radixway.core.renamed_modules import RENAMED_MODULES, find_renamed_module

HEAVY = {"radixway.scale.ray_serve"}
"""Needs Ray, which the tests of `gateway/ray_serve/` start."""


@pytest.fixture
def without_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has imported nothing by an old path."""
    for name in list(sys.modules):
        if find_renamed_module(name) is not None:
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("old", "new"), sorted(RENAMED_MODULES.items()))
@pytest.mark.usefixtures("without_old_names")
def test_an_old_path_is_the_module_of_the_new_one_and_warns(old: str, new: str) -> None:
    if old in HEAVY:
        pytest.importorskip("ray")
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__name__ == new
    assert found.__spec__ is not None and found.__spec__.name == new


@pytest.mark.usefixtures("without_old_names")
def test_what_is_within_a_moved_package_is_no_second_copy() -> None:
    with pytest.warns(
        DeprecationWarning, match="radixway.pipeline.errors is now radixway.core.pipeline.errors"
    ):
        old = importlib.import_module("radixway.pipeline.errors")
    assert old.GatewayError is importlib.import_module("radixway.core.pipeline").GatewayError


@pytest.mark.usefixtures("without_old_names")
def test_a_class_is_loaded_by_its_documented_path() -> None:
    from radixway.core.pipeline.middleware import import_class
    from radixway.core.pipeline.retry import Retry

    with pytest.warns(
        DeprecationWarning, match="radixway.pipeline.retry is now radixway.core.pipeline.retry"
    ):
        assert import_class("radixway.pipeline.retry.Retry") is Retry


def test_the_router_for_ray_serve_is_found_where_its_users_name_it() -> None:
    pytest.importorskip("ray")
    program = (
        "from radixway.scale.ray_router import PrefixAffinityRouter as old\n"
        "from radixway.cluster.ray_router import PrefixAffinityRouter as new\n"
        "assert old is new\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning:__main__", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        "<string>:1: DeprecationWarning: radixway.scale.ray_router is now radixway.cluster.ray_router"
        in ran.stderr
    )


def test_other_names_are_not_found() -> None:
    assert find_renamed_module("radixway") is None
    assert find_renamed_module("radixway.core.pipeline") is None
    assert find_renamed_module("radixway.scaled") is None
    with pytest.raises(ModuleNotFoundError, match=r"radixway\.scaled"):
        importlib.import_module("radixway.scaled")
