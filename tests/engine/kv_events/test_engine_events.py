"""A whole engine and what a router learns of its cache from the outside."""

import json
import socket
import subprocess
import sys
import urllib.request
from array import array
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag

import pytest
import zmq
from pydantic import ValidationError

from engine.conftest import Reference
from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine import Engine
from radixway.engine.errors import EngineError
from radixway.engine.kv_events import AllBlocksCleared, BlockStored, KVCacheEvent, KVEventRecorder
from support.driving import GREEDY, finish, random_tokens, submit
from support.engine_process import engine_process
from support.following import Follower, events_of

Make = Callable[[str], Reference]


def tiny_engine(reference: Make, **options: object) -> Engine:
    defaults = {"model": str(reference("qwen3")[0]), "dtype": "float32", "threads": 1, "page_size": 4}
    return Engine(EngineConfig(**defaults | {"kv_tokens": 256} | options))


def replay(endpoint: str) -> list[bytes]:
    """All payloads there are."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger, socket.rcvtimeo = 0, 20_000
        socket.connect(endpoint)
        socket.send_multipart((b"", bytes(8)))
        payloads = []
        while (answer := socket.recv_multipart())[2]:
            assert answer[1] == len(payloads).to_bytes(8, "big"), "numbers count from 0 without a gap"
            payloads.append(answer[2])
        return payloads


def cached_of(engine: Engine) -> set[tuple[int, ...]]:
    """The token sequences of all cached pages."""
    tree = engine._core.scheduler.cache._tree
    found = set()
    for node in tree.nodes():
        key = b"".join(above.key for above in node.path_from_root())
        found |= {tuple(array("i", key[: end * tree.width])) for end in range(node.start + 1, node.end + 1)}
    return found


@pytest.mark.parametrize("form", ["map", "array"])
async def test_a_router_knows_the_cache_of_an_engine_that_evicts_fails_and_is_flushed(
    reference: Make, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tiny_engine(
        reference,
        kv_events_endpoint=f"ipc://{tmp_path}/events",
        kv_events_replay_endpoint=f"ipc://{tmp_path}/replay",
        kv_events_format=form,
    )
    engine.start()

    async def ask(seed: int) -> None:
        async for _ in engine.submit_request(
            [*random_tokens(20, seed % 5), *random_tokens(17, seed)], GREEDY
        ):
            pass

    def told() -> tuple[Follower, set[str]]:
        """After all that the engine was asked to do, and once the last batch was sent."""
        done = Flag()
        engine._inbox.put_command(done.set)
        assert done.wait(20)
        while not engine._publisher._history.batches_since(engine.kv_events.published_batches - 1):
            pass
        follower, kinds = Follower(), set()
        for payload in replay(engine.kv_events.replay_endpoint):
            events = events_of(payload)
            kinds |= {event["type"] if form == "map" else event[0] for event in events}
            follower.apply(events)
        return follower, kinds

    def sequences() -> set[tuple[int, ...]]:
        return {tokens for _, tokens in told()[0].sequences()}

    for seed in range(20):
        await ask(seed)
    assert told()[1] == {"BlockStored", "BlockRemoved"}
    assert sequences() == cached_of(engine) and engine.stats().evicted_tokens

    step = engine._core.step
    monkeypatch.setattr(engine._core, "step", lambda: step() and 1 / 0)
    with pytest.raises(EngineError, match="division by zero"):
        await ask(100)
    monkeypatch.undo()
    await ask(101)
    assert sequences() == cached_of(engine) and engine.flush_cache()
    await ask(102)
    follower, kinds = told()
    assert kinds == {"BlockStored", "BlockRemoved", "AllBlocksCleared"}
    assert {tokens for _, tokens in follower.sequences()} == cached_of(engine)
    engine.stop()
    assert engine.kv_events is None


async def test_what_is_on_disk_is_published_when_the_engine_starts(reference: Make, tmp_path: Path) -> None:
    def started() -> Engine:
        engine = tiny_engine(
            reference,
            disk_cache_dir=tmp_path,
            disk_cache_gb=0.01,
            kv_events_endpoint=f"ipc://{tmp_path}/events",
            kv_events_replay_endpoint=f"ipc://{tmp_path}/replay",
        )
        engine.start()
        return engine

    engine, prompt = started(), random_tokens(20)
    async for _ in engine.submit_request(prompt, GREEDY):
        pass
    engine.stop()
    engine = started()
    while not engine._publisher._history.batches_since(0):
        pass
    (batch,) = replay(engine.kv_events.replay_endpoint)
    (event,) = events_of(batch)
    assert event["type"] == "BlockStored" and event["medium"] == "DISK"
    assert event["parent_block_hash"] is None and event["token_ids"][:20] == prompt.tolist()
    engine.stop()


def test_without_an_endpoint_nothing_is_hashed(reference: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVEventRecorder, "on_stored", lambda *_: pytest.fail("hashed for nobody"))
    engine = tiny_engine(reference)
    assert engine.kv_events is None
    for seed in range(3):
        core = engine._core
        core.add_request(core.make_request(f"r{seed}", random_tokens(20, seed), GREEDY, "", 0))
    while engine._core.has_work:
        engine._core.step()


def test_an_engine_that_cannot_load_gives_its_endpoint_back(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    for _ in range(2):
        with pytest.raises(EngineError, match="model not found"):
            Engine(EngineConfig(model=str(tmp_path / "none"), kv_events_endpoint=f"tcp://*:{port}"))


@pytest.mark.parametrize(
    "endpoint",
    ["5557", "tcp://*", "tcp://*:99999", "http://*:1", "inproc://events", "tcp://:1", "ipc://", ""],
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError, match="no endpoint: give"):
        EngineConfig(kv_events_endpoint=endpoint)


def test_replay_alone_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs kv_events_endpoint"):
        EngineConfig(kv_events_replay_endpoint="tcp://*:5558")


def test_the_command_publishes_and_server_info_tells_where(tmp_path: Path) -> None:
    flags = ["--kv-events-endpoint", "tcp://127.0.0.1:*", "--kv-events-topic", "kv@guide"]
    flags += ["--kv-events-replay-endpoint", f"ipc://{tmp_path}/replay", "--kv-events-format", "array"]
    with engine_process(*flags, "--eviction", "slru") as (url, _):
        body = json.dumps({"input_ids": [5] * 40, "sampling_params": {"max_new_tokens": 1}}).encode()
        headers = {"content-type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/generate", body, headers), timeout=60).close()
        with urllib.request.urlopen(f"{url}/server_info", timeout=20) as reply:
            info = json.load(reply)
        told = info["kv_events"]
        assert told["endpoint"].startswith("tcp://127.0.0.1:") and told["endpoint"][-1].isdigit()
        assert told["replay_endpoint"] == f"ipc://{tmp_path}/replay"
        assert (told["topic"], told["format"], told["dropped_batches"]) == ("kv@guide", "array", 0)
        assert info["eviction_policy"] == "slru"
        (payload,) = replay(told["replay_endpoint"])
        (event,) = events_of(payload)
        assert event[0] == "BlockStored" and event[3] == [5] * 32 and event[4] == info["page_size"] == 16


def test_a_taken_port_ends_the_command_with_a_sentence() -> None:
    with socket.create_server(("", 0)) as taken:
        endpoint = f"tcp://*:{taken.getsockname()[1]}"
        told = subprocess.run(
            [sys.executable, "-m", "radixway", "engine", "--port", "0", "--kv-events-endpoint", endpoint],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert told.returncode == 2
    assert f"cannot publish KV events at {endpoint}: Address already in use" in " ".join(told.stderr.split())


@pytest.mark.parametrize("keep_kv", [False, True])
def test_new_weights_make_a_router_forget_the_old_ones_kv(reference: Make, keep_kv: bool) -> None:
    sent: list[list[KVCacheEvent]] = []
    core = build_core(
        EngineConfig(model=str(reference("qwen3")[0]), dtype="float32", page_size=4, kv_tokens=256),
        events=KVEventRecorder(4, sent.append),
    )
    submit(core, random_tokens(20))
    for _ in range(3):
        core.step()
    core.update_weights(core.runner.model, path=None, version="2", keep_kv=keep_kv)
    core.flush_events()
    assert [type(event) for event in sent[-1]] == [AllBlocksCleared]
    submit(core, random_tokens(20))
    finish(core)
    core.flush_events()
    blocks = [event for event in sent[-1] if isinstance(event, BlockStored)]
    assert blocks[0].parent_block_hash is None and blocks[0].extra_keys is None
    assert blocks[0].token_ids[:20] == random_tokens(20).tolist()
