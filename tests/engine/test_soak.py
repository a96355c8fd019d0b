"""Ten thousand requests through a pool far too small, with aborts: no page is lost, and no token is wrong.

To have it cover something more: options of the engine go into `SETTINGS`; what may happen between two steps
becomes a method of `Soak`, with its probability in `Soak.happenings`.
"""

from array import array
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.conftest import Reference
from engine.driving import finish, last_logits, random_tokens, submit, tiny_core
from radixway.engine.core import Core
from radixway.engine.request import Request, SamplingParams

SETTINGS: dict[str, dict[str, Any]] = {
    "pages of 1, lpm, lru": {"page_size": 1, "kv_tokens": 256},
    "pages of 16, dfs_weight, by priority": {
        "page_size": 16,
        "kv_tokens": 320,
        "schedule": "dfs_weight",
        "eviction": "priority",
    },
}
OFF = {"radix_cache": False, "kv_tokens": 64 * 256, "max_running": 64, "max_batch_tokens": 512}
"""The engine that tells what is right."""

LONGEST_PROMPT, LONGEST_ANSWER = 96, 60
TIE = 1e-4
"""Logits closer than this may change places with another order of summation."""


class Soak:
    """Random traffic for one engine, always the same for the same seed."""

    def __init__(self, core: Core, requests: int, seed: int = 0) -> None:
        self.core = core
        self.unsent = requests
        self.sent: list[Request] = []
        self.alive: dict[str, Request] = {}
        self.random = Random(seed)
        self.happenings: list[tuple[float, Callable[[], None]]] = [
            (0.4, self.arrive),
            (0.02, self.arrive_many_times),
            (0.05, self.abort_one),
            (0.002, self.leave_all),
            (0.1, self.flush),
        ]
        self._trunks = [random_tokens(60, seed=seed) for seed in range(6)]

    def run(self) -> None:
        """Until every request has come and gone, and nothing is cached any more."""
        steps = 0
        while self.unsent or self.core.busy:
            for probability, happen in self.happenings:
                if self.random.random() < probability:
                    happen()
            for request, output in self.core.step():
                if output.finish is not None:
                    del self.alive[request.id]
            steps += 1
            if steps % 7 == 0 or not self.core.busy:
                self.core.scheduler.check()
        assert not self.alive
        self.core.flush_cache()
        self.core.scheduler.check()

    def arrive(self) -> None:
        """One request more."""
        if self.unsent:
            self._send(self._prompt())

    def arrive_many_times(self) -> None:
        """One prompt with `n` answers."""
        prompt = self._prompt()
        for _ in range(min(self.unsent, self.random.randint(2, 8))):
            self._send(prompt)

    def abort_one(self) -> None:
        """A client that leaves, of a request that waits or runs."""
        if self.alive:
            self._abort(self.alive[self.random.choice(list(self.alive))])

    def leave_all(self) -> None:
        """All clients at once."""
        for request in list(self.alive.values()):
            self._abort(request)

    def flush(self) -> None:
        """An empty cache, now and then, if nobody is there."""
        if not self.core.busy:
            self.core.flush_cache()

    def _send(self, prompt: "array[int]") -> None:
        params = SamplingParams(
            temperature=0, max_tokens=self.random.choice([0, 1, 2, 5, 20, LONGEST_ANSWER]), ignore_eos=True
        )
        request = submit(
            self.core,
            prompt,
            params,
            namespace=self.random.choice(["", "", "", "tenant", "another"]),
            priority=self.random.choice([0, 0, 0, 1, 5]),
        )
        self.unsent -= 1
        self.sent.append(request)
        self.alive[request.id] = request

    def _abort(self, request: Request) -> None:
        assert self.core.abort(request) is not None
        del self.alive[request.id]

    def _prompt(self) -> "array[int]":
        """The next turn of an earlier one, or a beginning that others have too and a tail that few have."""
        if self.sent and self.random.random() < 0.3:
            beginning = self.random.choice(self.sent[-50:]).tokens
        else:
            trunk = self.random.choice(self._trunks)
            beginning = trunk[: self.random.randint(1, len(trunk))]
        tail = random_tokens(self.random.randint(1, 20), seed=self.random.randint(0, 200))
        return (beginning + tail)[:LONGEST_PROMPT]


def wrong_answers(sent: list[Request], path: Path) -> list[str]:
    """Which requests got a token that the model, asked with everything off, would not have given."""
    judge = tiny_core(path, **OFF)
    right: dict[bytes, Request] = {}
    for request in sorted(sent, key=lambda r: -len(r.tokens)):
        prompt = request.tokens[: request.prompt_len]
        if prompt.tobytes() not in right:
            most = SamplingParams(temperature=0, max_tokens=request.completion_tokens, ignore_eos=True)
            right[prompt.tobytes()] = submit(judge, prompt, most)
    finish(judge)
    wrong = []
    for request in sent:
        expected = right[request.tokens[: request.prompt_len].tobytes()].tokens
        places = [i for i, token in enumerate(request.tokens) if token != expected[i]]
        if places and not _tie(judge, request, places[0], expected[places[0]]):
            wrong.append(f"{request.id}: token {places[0]} of {len(request.tokens)}")
    return wrong


def _tie(judge: Core, request: Request, place: int, expected: int) -> bool:
    """Whether the token at `place` is as likely as the expected one."""
    (logits,) = last_logits(judge, [request.tokens[:place]])
    return abs(float(logits[request.tokens[place]] - logits[expected])) < TIE


def soak(core: Core, path: Path, requests: int) -> None:
    """Run it and judge it."""
    run = Soak(core, requests)
    run.run()
    pool, stats = core.scheduler.cache.pool, core.stats()
    assert pool.free == pool.total
    assert len(run.sent) == requests
    for request in run.sent:
        assert request.finish is not None
        full = request.completion_tokens == request.params.max_tokens
        assert full if request.finish.type == "length" else request.finish.type == "abort"
    assert stats.preemptions and stats.evicted_tokens and stats.cached_tokens, "the pool is tiny, and shared"
    assert not wrong_answers(run.sent, path)


Make = Callable[[str], Reference]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_short_soak(reference: Make, setting: str) -> None:
    path = reference("qwen3")[0]
    soak(tiny_core(path, max_running=8, max_batch_tokens=48, **SETTINGS[setting]), path, requests=300)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_ten_thousand_requests_leave_nothing_behind_and_get_no_wrong_token(
    reference: Make, setting: str
) -> None:
    path = reference("qwen3")[0]
    soak(tiny_core(path, max_running=8, max_batch_tokens=48, **SETTINGS[setting]), path, requests=10_000)
