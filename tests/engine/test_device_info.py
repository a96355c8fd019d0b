"""Choices that follow from the machine."""

from pathlib import Path

import pytest
import torch

from radixway.engine import device_info
from radixway.engine.errors import EngineError

CPU = torch.device("cpu")


def test_bfloat16_is_chosen_where_the_cpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, dtype in (
        ("flags : avx512f avx512_vnni", torch.float32),
        ("flags : avx512f avx512_bf16 amx_tile", torch.bfloat16),
        ("Features : asimd bf16 i8mm", torch.bfloat16),
    ):
        monkeypatch.setattr(Path, "read_text", lambda path, text=flags: text)
        assert device_info.choose_dtype("auto", CPU) == dtype
    assert device_info.choose_dtype("bfloat16", CPU) == torch.bfloat16
    assert device_info.choose_dtype("float32", CPU) == torch.float32


def test_cuda_is_refused_in_words_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_info.choose_device("auto") == CPU
    with pytest.raises(EngineError, match="cuda"):
        device_info.choose_device("cuda")


def test_a_containers_limit_of_memory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_info, "CGROUP", tmp_path)
    assert device_info.measure_free_memory(CPU) > 0
    (tmp_path / "memory.max").write_text("3000")
    (tmp_path / "memory.current").write_text("1000")
    assert device_info.measure_free_memory(CPU) == 2000
    (tmp_path / "memory.max").write_text("max")
    assert device_info.measure_free_memory(CPU) > 2000


def test_memory_is_known_where_the_system_is_not_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no /proc, no control groups, and by its name only the pages that are built in."""
    monkeypatch.setattr(device_info, "CGROUP", tmp_path)
    monkeypatch.setattr(device_info, "_MEMORY_INFO", tmp_path / "meminfo")
    pages = {"SC_PHYS_PAGES": 4_000_000, "SC_PAGE_SIZE": 16_384}
    monkeypatch.setattr(device_info.os, "sysconf", pages.__getitem__)
    assert device_info.measure_free_memory(CPU) == 2_000_000 * 16_384
