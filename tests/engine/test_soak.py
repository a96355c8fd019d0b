"""Ten thousand requests through a pool far too small, with aborts and new weights: nothing is lost or wrong.

To have it cover something more: options of the engine go into `SETTINGS`; what may happen between two steps
becomes a method of `Soak`, with its probability in `Soak.happenings`.
"""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.weight_update import DiskWeights
from support.driving import finish, last_logits, random_tokens, submit, tiny_core
from support.policies import Policies

SETTINGS: dict[str, dict[str, Any]] = {
    "pages of 1, lpm, lru": {"page_size": 1, "kv_tokens": 256},
    "pages of 4, three tiers": {
        "page_size": 4,
        "kv_tokens": 256,
        "host_cache_gb": 4e-4,
        "disk_cache_gb": 2e-3,
    },
    "pages of 16, dfs_weight, by priority": {
        "page_size": 16,
        "kv_tokens": 320,
        "schedule": "dfs_weight",
        "eviction": "priority",
    },
}
OFF = {"radix_cache": False, "kv_tokens": 64 * 256, "max_running": 64, "max_batch_tokens": 512}
"""The engine that tells what is right."""

VERSIONS = 2
"""Of the weights; which one a token is from, the request says."""

LONGEST_PROMPT, LONGEST_ANSWER = 96, 60
TIE = 1e-4
"""Logits closer than this may change places with another order of summation."""


class Soak:
    """Random traffic for one engine, always the same for the same seed."""

    def __init__(self, core: EngineCore, policies: Policies, requests: int, seed: int = 0) -> None:
        self.core = core
        self.models = [
            DiskWeights(str(policies.path(version))).load_weights(core.runner.model)
            for version in range(VERSIONS)
        ]
        self.unsent = requests
        self.sent: list[EngineRequest] = []
        self.alive: dict[str, EngineRequest] = {}
        self.random = Random(seed)
        self.happenings: list[tuple[float, Callable[[], None]]] = [
            (0.4, self.arrive),
            (0.02, self.arrive_many_times),
            (0.05, self.abort_one),
            (0.002, self.leave_all),
            (0.1, self.flush),
            (0.003, self.change_weights),
            (0.003, self.pause),
        ]
        self._trunks = [random_tokens(60, seed=seed) for seed in range(6)]

    def run(self) -> None:
        """Until every request has come and gone, and nothing is cached any more."""
        steps = 0
        while self.unsent or self.core.has_work or self.core.paused:
            self.core.resume_scheduling()
            for probability, happen in self.happenings:
                if self.random.random() < probability:
                    happen()
            for request, output in self.core.step():
                if output.finish is not None:
                    del self.alive[request.id]
            steps += 1
            if steps % 7 == 0 or not self.core.has_work:
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
        if not self.core.has_work:
            self.core.flush_cache()

    def change_weights(self) -> None:
        """As `/update_weights_from_disk` does it."""
        version = self.random.randrange(VERSIONS)
        self.core.update_weights(self.models[version], path=None, version=str(version), keep_kv=False)

    def pause(self) -> None:
        """With running requests kept or not; somebody leaves, somebody comes, and it goes on."""
        self.core.pause_scheduling(keep_running=self.random.random() < 0.5)
        self.abort_one()
        self.arrive()
        self.core.scheduler.check()

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

    def _abort(self, request: EngineRequest) -> None:
        assert self.core.abort_request(request) is not None
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


class Part(NamedTuple):
    """What one version of the weights made of a request's answer."""

    request: EngineRequest
    start: int
    stop: int
    """Places among the request's tokens."""

    @property
    def before(self) -> "array[int]":
        return self.request.tokens[: self.start]


def parts(request: EngineRequest, version: int) -> list[Part]:
    """What that version made."""
    starts = [request.prompt_len + start for start, _ in request.weight_changes]
    versions = [int(name) for _, name in request.weight_changes]
    spans = zip(versions, starts, [*starts[1:], len(request.tokens)], strict=False)  # none has no start
    return [Part(request, start, stop) for made_by, start, stop in spans if made_by == version]


def wrong_answers(answers: Sequence[Part], judge: EngineCore) -> list[str]:
    """Which of them have a token that `judge`, a model asked with everything off, would not have given."""
    right: dict[bytes, EngineRequest] = {}
    for part in sorted(answers, key=lambda part: part.start - part.stop):
        if part.before.tobytes() not in right:
            most = SamplingParams(temperature=0, max_tokens=part.stop - part.start, ignore_eos=True)
            right[part.before.tobytes()] = submit(judge, part.before, most)
    finish(judge)
    wrong = []
    for part in answers:
        given, expected = part.request.tokens, right[part.before.tobytes()].tokens
        places = [i for i in range(part.start, part.stop) if given[i] != expected[i]]
        if places and not _tie(judge, part.request, places[0], expected[places[0]]):
            wrong.append(f"{part.request.id}: token {places[0]} of {len(given)}")
    return wrong


def _tie(judge: EngineCore, request: EngineRequest, place: int, expected: int) -> bool:
    """Whether the token at `place` is as likely as the expected one."""
    (logits,) = last_logits(judge, [request.tokens[:place]])
    return abs(float(logits[request.tokens[place]] - logits[expected])) < TIE


def soak(policies: Policies, setting: str, requests: int, folder: Path) -> None:
    """Run it and judge it; a disk tier goes to `folder`."""
    options: dict[str, Any] = {"max_running": 8, "max_batch_tokens": 48, "weight_version": "0"}
    options |= SETTINGS[setting]
    if "disk_cache_gb" in options:
        options["disk_cache_dir"] = folder
    core = tiny_core(policies.path(0), **options)
    run = Soak(core, policies, requests)
    run.run()
    pool, stats = core.scheduler.cache.pool, core.stats()
    assert pool.num_free == pool.total
    assert len(run.sent) == requests
    for request in run.sent:
        assert request.finish is not None
        full = request.completion_tokens == request.params.max_tokens
        assert full if request.finish.type == "length" else request.finish.type == "abort"
    assert stats.preemptions and stats.evicted_tokens and stats.cached_tokens, "the pool is tiny, and shared"
    for version in range(VERSIONS):
        answers = [part for request in run.sent for part in parts(request, version)]
        assert answers and not wrong_answers(answers, tiny_core(policies.path(version), **OFF))
    if stats.tiers.keys() > {"device"}:
        assert stats.tiers["host"].hit_tokens and stats.tiers["disk"].hit_tokens, "all tiers are used"
    assert any(len(request.weight_changes) > 1 for request in run.sent)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    return Policies(tmp_path_factory.mktemp("policies"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_short_soak(policies: Policies, tmp_path: Path, setting: str) -> None:
    soak(policies, setting, 300, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_ten_thousand_requests_leave_nothing_behind_and_get_no_wrong_token(
    policies: Policies, tmp_path: Path, setting: str
) -> None:
    soak(policies, setting, 10_000, tmp_path)
