"""How many processes `auto` is."""

from __future__ import annotations

import os

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.gateway.processes.process_count import count_processes, usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"), [("100000 100000", 1), ("max 100000", None), ("50000 100000", 1), ("", None)]
)
def test_a_containers_quota_counts(tmp_path, quota, cores):
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    assert usable_cores(file) == (cores or len(os.sched_getaffinity(0)))


def test_a_quota_of_part_of_a_core_more_is_a_core_more(tmp_path):
    file = tmp_path / "cpu.max"
    file.write_text("110000 100000")
    assert usable_cores(file) == min(2, len(os.sched_getaffinity(0)))


def test_the_number_is_as_configured():
    assert count_processes(load_config(None, {})) == 1
    assert count_processes(load_config(None, {"gateway": {"processes": "3"}})) == 3
    assert count_processes(load_config(None, {"gateway": {"processes": "auto"}})) >= 1


@pytest.mark.parametrize("wrong", ["0", "some", 65, -1])
def test_what_is_no_number_of_processes_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"gateway\.processes"):
        load_config(None, {"gateway": {"processes": wrong}})
