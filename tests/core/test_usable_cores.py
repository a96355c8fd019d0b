"""Cores are counted by what this process may use of them."""

import os
from pathlib import Path

import pytest

from radixway.core import usable_cores
from radixway.core.usable_cores import count_usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("100000 100000", 1), ("max 100000", None), ("50000 100000", 1), ("", None), ("110000 100000", 2)],
)
def test_a_containers_quota_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int | None
) -> None:
    monkeypatch.setattr(usable_cores, "CGROUP", tmp_path)
    own = count_usable_cores()
    (tmp_path / "cpu.max").write_text(quota)
    assert count_usable_cores() == min(own, cores or own)


def test_all_cores_count_where_the_system_has_no_affinity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usable_cores, "CGROUP", tmp_path)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert count_usable_cores() == 12
