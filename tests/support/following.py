"""What a router does with KV events: keep the set of cached blocks, from what was decoded off the wire."""

from typing import Any

import msgspec

Block = tuple[int | None, tuple[int, ...]]


class Follower:
    """Blocks by hash, with their parent and tokens. Every event must fit what it knows already."""

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        self.salts: dict[int, tuple[str, ...]] = {}

    def apply(self, events: list[Any]) -> None:
        """Take the events of one batch, in either format."""
        for event in events:
            event = event if isinstance(event, dict) else as_map(event)
            match event["type"]:
                case "BlockStored":
                    self._store(event)
                case "BlockRemoved":
                    assert event["block_hashes"] and event["medium"] == "GPU"
                    for block in event["block_hashes"]:
                        del self.blocks[block]
                case "AllBlocksCleared":
                    self.blocks.clear()
                case other:
                    raise AssertionError(f"an event of the type {other}")

    def sequences(self) -> set[tuple[tuple[str, ...], tuple[int, ...]]]:
        """For every block its salt and all tokens from the beginning of its sequence to its end."""
        found = set()
        for block in self.blocks:
            tokens: tuple[int, ...] = ()
            first, above = block, block
            while above is not None:
                first = above
                above, own = self.blocks[above]
                tokens = own + tokens
            found.add((self.salts[first], tokens))
        return found

    def _store(self, event: dict[str, Any]) -> None:
        size, tokens = event["block_size"], event["token_ids"]
        assert len(tokens) == size * len(event["block_hashes"]) and event["block_hashes"]
        parent = event["parent_block_hash"]
        assert parent is None or parent in self.blocks
        keys = event.get("extra_keys") or [None] * len(event["block_hashes"])
        for i, block in enumerate(event["block_hashes"]):
            assert 0 <= block < 2**64 and block not in self.blocks
            self.blocks[block] = parent, tuple(tokens[i * size : (i + 1) * size])
            if parent is None:
                self.salts[block] = tuple(keys[i] or ())
            parent = block


_STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"]
_STORED += ["extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"]
_FIELDS = {
    "BlockStored": _STORED,
    "BlockRemoved": ["block_hashes", "medium", "group_idx"],
    "AllBlocksCleared": [],
}


def as_map(event: list[Any]) -> dict[str, Any]:
    """A positional event by name, its fields counted as vLLM up to 0.23 declares them."""
    name, *values = event
    return {"type": name, **dict(zip(_FIELDS[name], values, strict=True))}


def events_of(payload: bytes) -> list[Any]:
    """The events of one payload."""
    at_s, events, rank = msgspec.msgpack.decode(payload)
    assert isinstance(at_s, float) and rank == 0
    return events
