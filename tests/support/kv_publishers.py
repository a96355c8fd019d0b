"""Hand-made engines that cache blocks and tell of it as vLLM and SGLang do, on the wire and in replays.

Their formats are those of vLLM's `distributed/kv_events.py` and SGLang's `disaggregation/kv_events.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from radixway.core.work_slices import run_at_once
from radixway.routing.kv_events.event_decoder import KvEventBatch, decode_batch

END = b"\xff" * 8
encode = msgspec.msgpack.encode


def stored(
    hashes: list[int | bytes], tokens: list[int], parent: int | bytes | None = None, **more: Any
) -> dict[str, Any]:
    """A BlockStored as vLLM 0.24 and later write it."""
    event = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": len(tokens) // len(hashes),
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    return event | more


def removed(hashes: list[int | bytes], medium: str | None = "GPU", **more: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium} | more


CLEARED = {"type": "AllBlocksCleared"}

VLLM_ORDER = (
    *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
    *("extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality"),
)
REMOVED_ORDER = ("block_hashes", "medium", "group_idx", "locality")


def vllm_array(event: dict[str, Any]) -> list[Any]:
    """An event as vLLM up to 0.23 writes it."""
    order = {"BlockStored": VLLM_ORDER, "BlockRemoved": REMOVED_ORDER}.get(event["type"], ())
    slots = [event.get(name) for name in order]
    while len(slots) > 2 and slots[-1] is None:
        slots.pop()
    return [event["type"], *slots]


def sglang_array(event: dict[str, Any]) -> list[Any]:
    """An event as SGLang wrote it until September 2026."""
    if event["type"] == "AllBlocksCleared":
        return ["AllBlocksCleared"]
    if event["type"] == "BlockRemoved":
        return ["BlockRemoved", event["block_hashes"], event["medium"]]
    order = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")
    extras = [{"cache_salt": event["cache_salt"]}] if event.get("cache_salt") else []
    return ["BlockStored", *(event[name] for name in order), *extras]


def batch(*events: Any, at_s: float = 1.0, rank: int | None = 0) -> bytes:
    return encode([at_s, list(events)] if rank is None else [at_s, list(events), rank])


def decode(payload: bytes) -> KvEventBatch:
    """The events of a batch, without a pause."""
    return run_at_once(decode_batch(payload))


@dataclass
class CachingEngine:
    """An engine of `block_size` tokens a block: what it caches, tells, and remembers for replay."""

    block_size: int
    history_steps: int = 10_000
    first_hash: int = 1
    prefixes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By hash, all tokens up to the block's end."""
    copies: dict[tuple[int, str], int] = field(default_factory=dict)
    """By hash and medium."""
    sequence: int = 0

    def __post_init__(self) -> None:
        self.history: deque[tuple[int, bytes]] = deque(maxlen=self.history_steps)
        self._hashes = count(self.first_hash)

    def hash_of(self, prefix: tuple[int, ...]) -> int | None:
        return next((name for name, known in self.prefixes.items() if known == prefix), None)

    def cache(self, tokens: tuple[int, ...], medium: str = "GPU") -> list[dict[str, Any]]:
        """Cache a prompt's whole blocks; tells of those that were not there."""
        events: list[dict[str, Any]] = []
        parent = None
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            prefix = tokens[:end]
            name = self.hash_of(prefix)
            if name is None:
                name = next(self._hashes)
                self.prefixes[name] = prefix
            if (name, medium) not in self.copies:
                self.copies[name, medium] = 1
                chunk = list(prefix[-self.block_size :])
                if events and events[-1]["block_hashes"][-1] == parent:
                    events[-1]["block_hashes"].append(name)
                    events[-1]["token_ids"] += chunk
                else:
                    events.append(stored([name], chunk, parent, medium=medium))
            parent = name
        return events

    def copy(self, name: int, medium: str) -> list[dict[str, Any]]:
        """A second physical copy of a block that is there (vLLM makes them)."""
        self.copies[name, medium] += 1
        prefix = self.prefixes[name]
        parent = self.hash_of(prefix[: -self.block_size])
        return [stored([name], list(prefix[-self.block_size :]), parent, medium=medium)]

    def evict(self, name: int, medium: str) -> list[dict[str, Any]]:
        """One copy goes. A hash is forgotten with its last copy, and with it those behind that hang on it."""
        self.copies[name, medium] -= 1
        if not self.copies[name, medium]:
            del self.copies[name, medium]
        if not any(known == name for known, _ in self.copies):
            del self.prefixes[name]
        return [removed([name], medium)]

    def clear(self) -> list[dict[str, Any]]:
        self.prefixes.clear()
        self.copies.clear()
        return [CLEARED]

    def held(self, medium: str) -> set[tuple[int, ...]]:
        return {self.prefixes[name] for name, where in self.copies if where == medium}

    def publish(self, events: list[Any], form: Any = dict) -> tuple[int, bytes]:
        """Number a batch and remember it."""
        number = self.sequence
        self.sequence += 1
        payload = batch(*map(form, events), at_s=float(number))
        self.history.append((number, payload))
        return number, payload

    def replay(self, start: int) -> list[tuple[int, bytes]]:
        return [known for known in self.history if known[0] >= start]
