"""Live traffic as a trace: requests by time and how much each shares with earlier ones, and no text.

A tap sits around the dispatch and sees each request as its worker gets it. Without a reader it only
hands on. Each follower gets lines in the format that `radixway simulate` reads (see
`routing/simulator/trace.py`),
in which blocks are named by hashes under a key of its own, so that a known prompt cannot be searched for.
"""

from __future__ import annotations

import secrets
from asyncio import Queue
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from struct import Struct
from time import perf_counter
from typing import Any, Self

import msgspec

from radixway.core.pipeline import ANY_MODEL, MeteredChunks, Next, Reply, Request, TokenUsage, read_usage
from radixway.routing import PromptReader, RoutingRequest, WorkerRegistry
from radixway.routing.prompt_reader import PromptNeeds

_UNREAD_LINES = 10_000
"""Lines that a follower may lag; then its stream ends, because a trace must have no gaps."""

_MAX_SESSIONS = 100_000
"""Sessions of which a follower remembers the latest answer's end."""

_WANTED = PromptNeeds(reads_blocks=True, reads_text=False, reads_session=True)
_pack = Struct("<Q").pack


class TrafficFollower:
    """Lines of a trace as they come, each when its request is over. Close it at the end."""

    def __init__(self, leave: Callable[[TrafficFollower], None], key: bytes | None = None) -> None:
        """`key`: of the hashes; None: one of its own."""
        self._leave = leave
        self._lines: Queue[bytes | None] = Queue()
        self._key = key or secrets.token_bytes(32)
        self._began = perf_counter()
        self._answered: dict[int, float] = {}
        """When each session's latest answer ended, the least recent first."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def stop_following(self) -> None:
        """Stop after the lines that are still to be read."""
        self._leave(self)
        self._lines.put_nowait(None)

    def record_request(self, arrived: float, prompt: RoutingRequest, output_tokens: int) -> None:
        """A request is over that arrived then by `perf_counter`; earlier ones than we are left out."""
        if arrived < self._began:
            return
        if self._lines.qsize() >= _UNREAD_LINES:
            self.stop_following()
            return
        line: dict[str, Any] = {
            "timestamp": round((arrived - self._began) * 1e3, 3),
            "input_length": prompt.tokens,
            "output_length": output_tokens,
            "block_size": prompt.block_tokens,
            "hash_ids": [self._hash_name(_pack(block)) for block in prompt.blocks],
        }
        if prompt.session is not None:
            session = line["session"] = self._hash_name(prompt.session.encode())
            answered = self._answered.pop(session, None)
            if answered is not None and arrived >= answered:
                line["delay"] = round((arrived - answered) * 1e3, 3)
            self._answered[session] = perf_counter()
            if len(self._answered) > _MAX_SESSIONS:
                del self._answered[next(iter(self._answered))]
        self._lines.put_nowait(msgspec.json.encode(line) + b"\n")

    def _hash_name(self, value: bytes) -> int:
        return int.from_bytes(blake2b(value, digest_size=8, key=self._key).digest(), "little")


class TrafficFeed:
    """The followers of live traffic."""

    def __init__(self, key: bytes | None = None) -> None:
        """`key`: where processes' lines are put together, of all their followers' hashes."""
        self._key = key
        self._followers: set[TrafficFollower] = set()
        self._closed = False

    @property
    def has_followers(self) -> bool:
        """Return whether there is a follower."""
        return bool(self._followers)

    def add_follower(self) -> TrafficFollower:
        """Add a follower of requests that arrive from now on."""
        follower = TrafficFollower(self._followers.discard, self._key)
        if self._closed:
            follower.stop_following()
        else:
            self._followers.add(follower)
        return follower

    def publish_request(self, arrived: float, prompt: RoutingRequest, output_tokens: int) -> None:
        """Report a finished request to all followers (see `TrafficFollower.record_request`)."""
        for follower in tuple(self._followers):
            follower.record_request(arrived, prompt, output_tokens)

    def stop_followers(self) -> None:
        """End all feeds: the gateway is stopping."""
        self._closed = True
        for follower in tuple(self._followers):
            follower.stop_following()


class TrafficTap:
    """Reports every answered request to `traffic`, around the dispatch."""

    times_itself = True
    """As `RequestDispatcher` has it."""

    def __init__(
        self, dispatch: Next, registry: WorkerRegistry, prompts: PromptReader, traffic: TrafficFeed
    ) -> None:
        self._dispatch = dispatch
        self._registry = registry
        self._prompts = prompts
        self._traffic = traffic

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Dispatch `request`, and record it if there are followers."""
        return self._dispatch_recorded(request) if self._traffic.has_followers else self._dispatch(request)

    async def _dispatch_recorded(self, request: Request) -> Reply:
        arrived = perf_counter() - request.journal.elapsed_s()
        candidates = self._registry.candidates(None if request.model == ANY_MODEL else request.model)
        prompt = self._prompts.read_prompt(request, _WANTED, candidates, tokens_matter=True)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
        reply = await self._dispatch(request)
        if reply.status != 200 or not prompt.tokens:
            return reply
        on_usage(
            request,
            reply,
            lambda used: self._traffic.publish_request(arrived, prompt, used.completion_tokens),
        )
        return reply


def on_usage(request: Request, reply: Reply, note: Callable[[TokenUsage], None]) -> None:
    """Call `note` with what `reply` to `request` used: at once, or when its stream has ended."""
    if reply.chunks is None:
        note(read_usage(reply.body, generates=request.endpoint.generates) or TokenUsage())
    else:
        reply.chunks = MeteredChunks(reply.chunks, note, several=True)
        request.open_streams.append(reply.chunks)
