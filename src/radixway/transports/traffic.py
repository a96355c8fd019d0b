"""Live traffic as a trace: what was asked when and how much it shares with what came before, and no text.

A tap sits around the dispatch and sees each request as its worker gets it. Unless somebody follows, it only
hands on. Each follower gets lines in the format that `radixway simulate` reads (see `simulate/trace.py`),
in which blocks are named by hashes under a key of its own, so that nobody who knows a prompt can look for it.
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

from radixway.pipeline import ANY_MODEL, Metered, Next, Reply, Request, Used, used_of
from radixway.routing import PromptReader, Registry, RoutingRequest

_UNREAD_LINES = 10_000
"""Lines that a follower may be behind. Beyond that its stream ends: a trace must have no holes."""

_pack = Struct("<Q").pack


class Follower:
    """Lines of a trace as they come, each when its request is over. Close it at the end."""

    def __init__(self, leave: Callable[[Follower], None]) -> None:
        self._leave = leave
        self._lines: Queue[bytes | None] = Queue()
        self._key = secrets.token_bytes(32)
        self._began = perf_counter()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def close(self) -> None:
        """No line comes after those that are still to be read."""
        self._leave(self)
        self._lines.put_nowait(None)

    def tell(self, arrived: float, prompt: RoutingRequest, output_tokens: int) -> None:
        """A request is over that arrived then by `perf_counter`; earlier ones than we are left out."""
        if arrived < self._began:
            return
        if self._lines.qsize() >= _UNREAD_LINES:
            self.close()
            return
        line: dict[str, Any] = {
            "timestamp": round((arrived - self._began) * 1e3, 3),
            "input_length": prompt.tokens,
            "output_length": output_tokens,
            "block_size": prompt.block_tokens,
            "hash_ids": [self._name(_pack(block)) for block in prompt.blocks],
        }
        if prompt.session is not None:
            line["session"] = self._name(prompt.session.encode())
        self._lines.put_nowait(msgspec.json.encode(line) + b"\n")

    def _name(self, value: bytes) -> int:
        return int.from_bytes(blake2b(value, digest_size=8, key=self._key).digest(), "little")


class Traffic:
    """Who follows the traffic."""

    def __init__(self) -> None:
        self._followers: set[Follower] = set()
        self._closed = False

    @property
    def followed(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._followers)

    def follow(self) -> Follower:
        """One more follower, told of requests that arrive from now on."""
        follower = Follower(self._followers.discard)
        if self._closed:
            follower.close()
        else:
            self._followers.add(follower)
        return follower

    def tell(self, arrived: float, prompt: RoutingRequest, output_tokens: int) -> None:
        """A request is over (see `Follower.tell`)."""
        for follower in tuple(self._followers):
            follower.tell(arrived, prompt, output_tokens)

    def close(self) -> None:
        """The gateway is stopping: nobody is told anything more."""
        self._closed = True
        for follower in tuple(self._followers):
            follower.close()


class _Wanted:
    """Of prompts; whatever the model's policy looks at."""

    reads_blocks = True
    reads_text = False
    reads_session = True


_WANTED = _Wanted()


class Tap:
    """Around the dispatch: tells `traffic` of every request that was answered."""

    def __init__(self, dispatch: Next, registry: Registry, prompts: PromptReader, traffic: Traffic) -> None:
        self._dispatch = dispatch
        self._registry = registry
        self._prompts = prompts
        self._traffic = traffic

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """What the dispatch answers."""
        return self._tapped(request) if self._traffic.followed else self._dispatch(request)

    async def _tapped(self, request: Request) -> Reply:
        arrived = perf_counter() - request.journal.elapsed_s()
        candidates = self._registry.candidates(None if request.model == ANY_MODEL else request.model)
        prompt = self._prompts.read(request, _WANTED, candidates, tokens_matter=True)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
        reply = await self._dispatch(request)
        if reply.status != 200 or not prompt.tokens:
            return reply
        if reply.chunks is None:
            used = used_of(reply.body, generates=request.endpoint.generates)
            self._traffic.tell(arrived, prompt, (used or Used()).completion_tokens)
        else:
            tell = self._traffic.tell
            reply.chunks = Metered(
                reply.chunks, lambda used: tell(arrived, prompt, used.completion_tokens), several=True
            )
            request.opened.append(reply.chunks)
        return reply
