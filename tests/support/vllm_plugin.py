"""A plugin of vLLM for tests: tells over a socket which blocks its cache holds, by their hashes."""

import json
import os
import socketserver
import threading
from typing import Any


def install() -> None:
    """Make the block pool of this process answer at the socket that `RADIXWAY_HELD_BLOCKS` names."""
    from vllm.v1.core.block_pool import BlockPool

    path, initialise = os.environ["RADIXWAY_HELD_BLOCKS"], BlockPool.__init__

    def initialise_and_answer(pool: Any, *args: Any, **options: Any) -> None:
        initialise(pool, *args, **options)
        threading.Thread(target=_answer, args=(pool, path), daemon=True).start()

    BlockPool.__init__ = initialise_and_answer


def _answer(pool: Any, path: str) -> None:
    from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            keys = list(pool.cached_block_hash_to_block._cache)
            held = sorted({maybe_convert_block_hash(get_block_hash(key)) for key in keys})
            self.wfile.write(json.dumps(held).encode())

    with socketserver.UnixStreamServer(path, Answer) as server:
        server.serve_forever()
