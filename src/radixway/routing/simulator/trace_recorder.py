"""Makes a trace of what a gateway tells of its traffic: small numbers for hashes, one block size for all.

Blocks get numbers in the order in which they first appear, so the file says which prompts begin alike and
nothing else of them. Where a request's blocks have another size than the file's, larger ones are cut (all
parts of a shared block are shared) and smaller ones joined (a block stands for all that leads to it, so of
each run of neighbours the last one's name does).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from radixway.routing.simulator.trace import TraceError, TraceLine

_decode = msgspec.json.Decoder(TraceLine).decode


class TraceRecorder:
    """Hands lines of a trace to `write` as lines of traffic come in."""

    def __init__(self, write: Callable[[bytes], object], block_tokens: int | None = None) -> None:
        """`block_tokens`: tokens a block in the trace; by default those of the first request."""
        self.block_tokens = block_tokens
        self.recorded = 0
        self.left_out = 0
        """Requests whose blocks cannot be made into blocks of the trace's size."""
        self._write = write
        self._blocks: dict[tuple[int, int], int] = {}
        self._sessions: dict[int, int] = {}

    def record_line(self, text: bytes) -> None:
        """A line of traffic. Raises TraceError if it is none."""
        try:
            line = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"this is no line of traffic: {error}") from None
        if line.block_size is None:
            raise TraceError("this is no line of traffic: it tells no block_size")
        size = self.block_tokens = self.block_tokens or line.block_size
        if size % line.block_size and line.block_size % size:
            self.left_out += 1
            return
        names = self._resize_blocks(line.hash_ids, line.block_size, size)
        line.hash_ids = [self._blocks.setdefault(name, len(self._blocks)) for name in names]
        line.block_size = size
        if line.session is not None:
            line.session = self._sessions.setdefault(line.session, len(self._sessions))
        self._write(msgspec.json.encode(line) + b"\n")
        self.recorded += 1

    @staticmethod
    def _resize_blocks(blocks: list[int], theirs: int, ours: int) -> list[tuple[int, int]]:
        """The blocks of our size: which block of theirs, and which part of it."""
        if theirs > ours:
            return [(block, part) for block in blocks for part in range(theirs // ours)]
        step = ours // theirs
        return [(block, 0) for block in blocks[step - 1 :: step]]
