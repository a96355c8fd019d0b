"""What lower tiers tell of themselves is what they hold, step by step."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.conftest import Reference
from engine.tiers.test_tiered_cache import PARAMS, gb, in_turn, prompts_of, tiers_of, tiny_core
from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.engine_core import EngineCore
from radixway.engine.kv_events import KVCacheEvent, KVEventRecorder
from radixway.engine.kv_events.event_recorder import encode_batch
from radixway.engine.tiers import tiered_cache as tiers_module
from support.driving import finish, random_tokens, submit
from support.following import Follower, events_of

Make = Callable[[str], Reference]
MEDIA = ("GPU", "CPU_PINNED", "DISK")


@pytest.fixture(autouse=True)
def short_prefixes_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers_module, "MIN_LOAD_TOKENS", 8)


class Told:
    """A follower of each medium."""

    def __init__(self) -> None:
        self.followers = {medium: Follower() for medium in MEDIA}
        self.events: list[KVCacheEvent] = []

    def take(self, batch: list[KVCacheEvent]) -> None:
        self.events += batch
        for event in events_of(encode_batch(0.0, batch, "map")):
            for medium, follower in self.followers.items():
                if event.get("medium", medium) == medium:
                    follower.apply([{**event, "medium": "GPU"}])

    def tokens(self, medium: str) -> set[tuple[int, ...]]:
        return {tokens for _, tokens in self.followers[medium].sequences()}


def told_core(path: Path, folder: Path, told: Told) -> EngineCore:
    config = {
        "model": str(path),
        "dtype": "float32",
        "page_size": 4,
        "kv_tokens": 100,
        "host_cache_gb": gb(40),
        "disk_cache_dir": folder,
        "disk_cache_gb": 80 * 4096 / 1e9,
    }
    return build_core(EngineConfig(**config), events=KVEventRecorder(4, told.take))


def held_on_host(core: EngineCore) -> set[tuple[int, ...]]:
    """Every prefix of whole pages in the host tier."""
    found = set()
    for node in tiers_of(core)._host._tree.nodes():
        key = b"".join(part.key for part in node.path_from_root())
        ids = tuple(memoryview(key).cast("i"))
        found |= {ids[: 4 * page] for page in range(node.start + 1, node.end + 1)}
    return found


def test_each_tiers_events_say_what_it_holds_under_random_traffic(reference: Make, tmp_path: Path) -> None:
    told, pick = Told(), random.Random(0)
    core = told_core(reference("llama")[0], tmp_path, told)
    trunks = [random_tokens(40, seed=seed) for seed in range(3)]
    for number in range(40):
        trunk = pick.choice(trunks)[: pick.randint(0, 40)]
        submit(
            core,
            [*trunk, *random_tokens(pick.randint(1, 30), seed=pick.randrange(20))],
            PARAMS,
            name=f"n{number}",
        )
        if number == 25:
            core.abort_request(next(iter(core.scheduler.waiting)))
        while core.has_work:
            core.step()
            core.flush_events()
            assert told.tokens("CPU_PINNED") == held_on_host(core)
            assert len(told.followers["DISK"].blocks) == tiers_of(core)._disk.tier.num_pages  # type: ignore[union-attr]
    assert told.tokens("DISK") and core.stats().tiers["disk"].evicted_tokens
    core.flush_cache()
    core.flush_events()
    assert not any(told.tokens(medium) for medium in MEDIA)
    core.shutdown()


def test_a_page_has_the_same_hash_in_every_tier(reference: Make, tmp_path: Path) -> None:
    told = Told()
    core = told_core(reference("llama")[0], tmp_path, told)
    in_turn(core, prompts_of(3))
    core.flush_events()
    stored = [e for e in told.events if type(e).__name__ == "BlockStored"]
    of = {medium: {h for e in stored if e.medium == medium for h in e.block_hashes} for medium in MEDIA}  # type: ignore[union-attr]
    assert of["CPU_PINNED"] == of["DISK"] and of["CPU_PINNED"] < of["GPU"]
    core.shutdown()


def test_what_a_restart_finds_on_disk_is_told_before_the_first_request(
    reference: Make, tmp_path: Path
) -> None:
    path, prompts = reference("llama")[0], prompts_of(3)
    told = Told()
    first = told_core(path, tmp_path, told)
    in_turn(first, [*prompts, [*prompts[0], *random_tokens(30, seed=7)]])
    first.shutdown()
    first.flush_events()
    left = told.followers["DISK"].blocks
    told = Told()
    second = told_core(path, tmp_path, told)
    second.flush_events()
    assert left and told.followers["DISK"].blocks == left
    assert not told.tokens("GPU") and not told.tokens("CPU_PINNED")
    in_turn(second, [[*prompt, *random_tokens(30, seed=8)] for prompt in prompts] + prompts_of(6))
    second.flush_events()
    assert second.stats().tiers["disk"].hit_tokens and second.stats().tiers["disk"].evicted_tokens
    assert len(told.followers["DISK"].blocks) == tiers_of(second)._disk.tier.num_pages  # type: ignore[union-attr]
    second.shutdown()


def test_the_tokens_of_what_has_a_salt_are_not_written_and_it_is_not_told_after_a_restart(
    reference: Make, tmp_path: Path
) -> None:
    path, prompt = reference("llama")[0], random_tokens(60)
    first = told_core(path, tmp_path, Told())
    submit(first, prompt, PARAMS, namespace="tenant")
    finish(first)
    first.shutdown()
    assert prompt[:4].tobytes() not in (tmp_path / "kv.index").read_bytes()
    told = Told()
    second = told_core(path, tmp_path, told)
    submit(second, [*prompt, *random_tokens(30, seed=1)], PARAMS, namespace="tenant")
    finish(second)
    second.shutdown()
    second.flush_events()
    assert second.stats().tiers["disk"].hit_tokens
    assert told.tokens("GPU") and not told.tokens("DISK")


def test_a_disk_that_fails_takes_back_what_it_told(reference: Make, tmp_path: Path) -> None:
    told = Told()
    core = told_core(reference("llama")[0], tmp_path, told)
    expected = in_turn(tiny_core(reference("llama")[0], radix_cache=False), prompts_of(3))
    in_turn(core, prompts_of(3))
    core.flush_events()
    assert told.tokens("DISK")
    tiers_of(core)._disk.failed = OSError("it broke")  # type: ignore[union-attr]
    assert in_turn(core, prompts_of(3)) == expected
    core.flush_events()
    assert not told.tokens("DISK") and "disk" not in core.stats().tiers
    core.shutdown()
