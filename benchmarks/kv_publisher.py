"""Engines that publish KV events of very many blocks, as an engine with a warm cache has done.

One process, a publisher for each worker: our engine's own (PUB and replay sockets, vLLM's messages). Each
sequence is `BLOCKS` blocks of `BLOCK_SIZE` tokens; no two share a block.

    python benchmarks/kv_publisher.py --blocks 1000000 --publishers 2

prints its endpoints as one line of JSON once all is published, and serves replays until it is stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from array import array

from radixway.engine.kv_events import BlockStored, ZmqEventPublisher

BLOCK_SIZE = 16
BLOCKS = 128
_EVENTS_PER_BATCH = 8


def sequence_tokens(sequence: int) -> list[int]:
    """The tokens of one of the sequences that are published: `BLOCKS * BLOCK_SIZE` of 16 bits."""
    return array("H", random.Random(sequence).randbytes(2 * BLOCKS * BLOCK_SIZE)).tolist()


def stored_event(sequence: int) -> BlockStored:
    """What an engine says once it has computed that sequence."""
    hashes = array("Q", random.Random(-1 - sequence).randbytes(8 * BLOCKS)).tolist()
    return BlockStored(
        block_hashes=hashes,
        parent_block_hash=None,
        token_ids=sequence_tokens(sequence),
        block_size=BLOCK_SIZE,
        lora_id=None,
        medium="GPU",
        lora_name=None,
    )


def sequences_for(blocks: int) -> int:
    """How many sequences have at least so many `blocks`."""
    return -(-blocks // BLOCKS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=1_000_000, help="of all publishers together")
    parser.add_argument("--publishers", type=int, default=2)
    given = parser.parse_args()
    publishers = [
        ZmqEventPublisher("tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*")
        for _ in range(given.publishers)
    ]
    sequences = list(range(sequences_for(given.blocks)))
    for first in range(0, len(sequences), _EVENTS_PER_BATCH):
        publisher = publishers[first // _EVENTS_PER_BATCH % len(publishers)]
        publisher.publish_events(
            [stored_event(each) for each in sequences[first : first + _EVENTS_PER_BATCH]]
        )
    where = [publisher.info for publisher in publishers]
    if dropped := sum(each.dropped_batches for each in where):
        sys.exit(f"{dropped} batches were dropped")
    endpoints = [{"endpoint": each.endpoint, "replay_endpoint": each.replay_endpoint} for each in where]
    print(json.dumps(endpoints), flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
