"""What may hold a gateway's event loop up, a case each: what it needs, and what is done to the gateway.

A case runs in front of two fake workers whose KV events come from `KvPublisher`s here, over ZeroMQ as vLLM
sends them (`BlockStored` maps, numbered batches, a replay socket).
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
import urllib.error
import urllib.request
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zmq

from fake_worker import MODEL
from load import Job, Load, Result
from loop_watch import WatchedGateway
from processes import free_ports

_END = b"\xff" * 8
_BLOCK_SIZE = 16
_encode = msgspec.msgpack.encode
_local = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class KvPublisher:
    """An engine's publisher: numbers its batches, keeps them all, and sends them again when asked."""

    def __init__(self, seed: int) -> None:
        self.port, self.replay_port = free_ports(2)
        self._random = random.Random(seed)
        self._batches: list[bytes] = []
        self.hashes: list[int] = []
        self._context = zmq.Context()
        self._live = self._context.socket(zmq.PUB)
        self._live.sndhwm = 0
        self._live.bind(f"tcp://127.0.0.1:{self.port}")
        self.may_replay = threading.Event()
        """Cleared: the gateway waits for its replay."""
        self.may_replay.set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._answer_replays, daemon=True)
        self._thread.start()

    def config(self) -> dict[str, str]:
        """The worker's `kv_events` in a gateway's configuration."""
        return {
            "endpoint": f"tcp://127.0.0.1:{self.port}",
            "replay_endpoint": f"tcp://127.0.0.1:{self.replay_port}",
        }

    def stored_event(self, blocks: int) -> dict[str, Any]:
        """A sequence of `blocks` new blocks as one event."""
        hashes = [self._random.getrandbits(64) for _ in range(blocks)]
        self.hashes += hashes
        tokens = array("I", self._random.randbytes(4 * blocks * _BLOCK_SIZE)).tolist()
        return {
            "type": "BlockStored",
            "block_hashes": hashes,
            "parent_block_hash": None,
            "token_ids": [token % 150_000 for token in tokens],
            "block_size": _BLOCK_SIZE,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }

    def add_batch(self, *events: dict[str, Any]) -> None:
        """Number a batch for replays, without sending it now."""
        self._batches.append(_encode([time.time(), events, 0]))

    def publish(self, *events: dict[str, Any]) -> None:
        """Number a batch and send it."""
        self.add_batch(*events)
        number = len(self._batches) - 1
        self._live.send_multipart([b"", number.to_bytes(8, "big"), self._batches[number]])

    def close(self) -> None:
        """Let go of the sockets."""
        self._stopping.set()
        self.may_replay.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _answer_replays(self) -> None:
        with self._context.socket(zmq.ROUTER) as replays:
            replays.sndhwm = 0
            replays.bind(f"tcp://127.0.0.1:{self.replay_port}")
            while not self._stopping.is_set():
                if replays.poll(100):
                    client, *_, start = replays.recv_multipart()
                    self.may_replay.wait()
                    for number in range(int.from_bytes(start, "big"), len(self._batches)):
                        batch = self._batches[number]
                        replays.send_multipart([client, b"", b"", number.to_bytes(8, "big"), batch])
                    replays.send_multipart([client, b"", b"", _END, b""])


@dataclass(slots=True)
class Scene:
    """What a case has at hand."""

    gateway: WatchedGateway
    publishers: list[KvPublisher]
    load: Load
    home: Path
    facts: dict[str, Any] = field(default_factory=dict)

    def call(self, path: str, body: bytes | None = None, method: str | None = None) -> bytes:
        """Call the gateway; the answer's body. An error ends the run."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.gateway.port}{path}",
            body,
            {"content-type": "application/json"},
            method=method,
        )
        try:
            with _local.open(request, timeout=300) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.code} {error.read()[:300]!r}") from None

    def wait_for_blocks(self, count: int, within_s: float = 120.0) -> None:
        """Return once the gateway has indexed `count` blocks of the workers' events."""
        end = time.monotonic() + within_s
        known = -1
        while time.monotonic() < end:
            workers = json.loads(self.call("/workers"))["workers"]
            known = sum((worker.get("kv_events") or {}).get("blocks") or 0 for worker in workers)
            if known == count:
                return
            time.sleep(0.1)
        raise SystemExit(f"{known} of {count} blocks were indexed in {within_s:g} s")

    def send(self, requests: int, seed: int, connections: int = 32) -> Result:
        """Send `requests` unique prompts of 1 KB in a closed loop. A wrong answer ends the run."""
        result = self.load.run(Job(self.gateway.port, requests, connections, 1024, seed=seed, deadline_s=600))
        if result.errors:
            raise SystemExit(f"answered wrongly: {result.errors}")
        return result


@dataclass(frozen=True, slots=True)
class StallCase:
    """Something that may hold the loop up."""

    name: str
    text: str
    act: Callable[[Scene], None]
    prepare: Callable[[Scene], None] | None = None
    """Done before counting begins; None: it counts from its start."""
    before_start: Callable[[list[KvPublisher]], None] = lambda publishers: None
    config: dict[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def publishers(count: int) -> Iterator[list[KvPublisher]]:
    """Publishers of `count` workers."""
    with contextlib.ExitStack() as stack:
        made = [KvPublisher(seed) for seed in range(count)]
        for publisher in made:
            stack.callback(publisher.close)
        yield made


# ---------------------------------------------------------------- the cases


def _in_one_event(scene: Scene) -> None:
    scene.publishers[0].publish(scene.publishers[0].stored_event(160_000))
    scene.wait_for_blocks(160_000)


def _in_many_events(scene: Scene) -> None:
    publisher = scene.publishers[0]
    publisher.publish(*(publisher.stored_event(64) for _ in range(2_500)))
    scene.wait_for_blocks(160_000)


def store_batches(blocks: int) -> Callable[[list[KvPublisher]], None]:
    """Have publishers keep `blocks` blocks in batches of 10,000 before the gateway starts."""

    def store(made: list[KvPublisher]) -> None:
        for publisher in made:
            for _ in range(blocks // 10_000 // len(made)):
                publisher.add_batch(*(publisher.stored_event(100) for _ in range(100)))

    return store


def _hold_replays(made: list[KvPublisher]) -> None:
    store_batches(1_000_000)(made)
    for publisher in made:
        publisher.may_replay.clear()


def _join_late(scene: Scene) -> None:
    for publisher in scene.publishers:
        publisher.may_replay.set()
    scene.wait_for_blocks(1_000_000)


def _remove(scene: Scene) -> None:
    publisher = scene.publishers[0]
    publisher.publish({"type": "BlockRemoved", "block_hashes": publisher.hashes[:160_000], "medium": "GPU"})
    scene.wait_for_blocks(840_000)


def _clear(scene: Scene) -> None:
    scene.publishers[0].publish({"type": "AllBlocksCleared"})
    scene.wait_for_blocks(500_000)


def _remove_worker(scene: Scene) -> None:
    url = json.loads(scene.call("/workers"))["workers"][0]["url"]
    scene.call("/remove_worker", json.dumps({"url": url}).encode())
    scene.wait_for_blocks(500_000)
    time.sleep(1)


def _chat(messages: list[Any], **fields: Any) -> bytes:
    return json.dumps({"model": MODEL, "messages": messages} | fields).encode()


def _many_messages(scene: Scene) -> None:
    scene.call("/v1/chat/completions", scene.facts["body"])


def _prepare_messages(scene: Scene) -> None:
    scene.facts["body"] = _chat([{"role": "user", "content": "word"}] * 400_000)


def _prepare_nesting(scene: Scene) -> None:
    parts = [{"type": "text", "text": "word"}] * 400_000
    scene.facts["body"] = _chat([{"role": "user", "content": parts}])


def _prepare_token_ids(scene: Scene) -> None:
    scene.facts["body"] = json.dumps({"model": MODEL, "prompt": list(range(2_000_000))}).encode()


def _prepare_token_lists(scene: Scene) -> None:
    scene.facts["body"] = json.dumps({"input_ids": [list(range(1_000_000))] * 2}).encode()


def _generate(scene: Scene) -> None:
    scene.call("/generate", scene.facts["body"])


def _prepare_prompts(scene: Scene) -> None:
    scene.facts["body"] = json.dumps({"model": MODEL, "prompt": ["a word"] * 400_000}).encode()


def _completion(scene: Scene) -> None:
    scene.call("/v1/completions", scene.facts["body"])


def _prepare_long_text(scene: Scene) -> None:
    scene.facts["body"] = _chat([{"role": "user", "content": "word " * 2_000_000}])


def _fill_journals(scene: Scene) -> None:
    scene.send(10_000, seed=1)


def _search(scene: Scene) -> None:
    for _ in range(3):
        scene.call("/requests?q=nothing-like-it&limit=500")


def _list_rows(scene: Scene) -> None:
    for _ in range(3):
        scene.call("/requests?limit=500")


def _prefix_tree(scene: Scene) -> None:
    for _ in range(3):
        scene.call("/prefixes")


def _scrape(scene: Scene) -> None:
    for _ in range(5):
        scene.call("/metrics?format=prometheus")


_JOINED = store_batches(1_000_000)


def _wait_until_joined(scene: Scene) -> None:
    scene.wait_for_blocks(1_000_000)


CASES = (
    StallCase("kv-event", "one KV event of 160,000 blocks", _in_one_event),
    StallCase("kv-batch", "a batch of 2,500 KV events of 64 blocks", _in_many_events),
    StallCase("kv-replay", "a replay of 1,000,000 blocks", _join_late, lambda scene: None, _hold_replays),
    StallCase("kv-removed", "160,000 of 1,000,000 blocks removed", _remove, _wait_until_joined, _JOINED),
    StallCase("kv-cleared", "500,000 of 1,000,000 blocks cleared", _clear, _wait_until_joined, _JOINED),
    StallCase(
        "worker-gone", "a worker with 500,000 blocks leaves", _remove_worker, _wait_until_joined, _JOINED
    ),
    StallCase("messages", "a chat of 400,000 messages", _many_messages, _prepare_messages),
    StallCase("parts", "a chat of 400,000 content parts", _many_messages, _prepare_nesting),
    StallCase("prompts", "a completion of 400,000 prompts", _completion, _prepare_prompts),
    StallCase("token-ids", "a completion of 2,000,000 token ids", _completion, _prepare_token_ids),
    StallCase("token-lists", "/generate of 2 x 1,000,000 token ids", _generate, _prepare_token_lists),
    StallCase("long-text", "a chat of 10 MB in one message", _many_messages, _prepare_long_text),
    StallCase("requests-search", "/requests?q= over 10,000 journals", _search, _fill_journals),
    StallCase("requests-list", "/requests of 500 rows", _list_rows, _fill_journals),
    StallCase("prefixes", "/prefixes of 10,000 requests", _prefix_tree, _fill_journals),
    StallCase("metrics", "/metrics after 10,000 requests", _scrape, _fill_journals),
)
