"""Host memory and disk below a pool that is far too small: the answers stay what they are."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import Reference
from radixway.engine.engine_core import EngineCore
from radixway.engine.engine_request import EngineRequest
from radixway.engine.errors import EngineError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.tiers import tiered_cache as tiers_module
from radixway.engine.tiers.tiered_cache import TieredKVCache
from support.driving import answers, finish, random_tokens, step, submit, tiny_core

Make = Callable[[str], Reference]
PARAMS = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
PAGE_BYTES = 2 * 3 * 2 * 12 * 4 * 4  # keys and values, layers, KV heads, head size, tokens, bytes of a float


@pytest.fixture(autouse=True)
def short_prefixes_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers_module, "MIN_LOAD_TOKENS", 8)


@pytest.fixture
def path(reference: Make) -> Path:
    return reference("llama")[0]


def gb(pages: int) -> float:
    return (pages + 0.5) * PAGE_BYTES / 1e9


def tiered(
    path: Path, folder: Path | None = None, *, pool: int = 100, host: int = 400, **options: Any
) -> EngineCore:
    """A core whose device holds `pool` tokens, with host memory for `host` pages and the disk in `folder`."""
    options = {"disk_cache_gb": 500 * 4096 / 1e9} | options
    return tiny_core(path, kv_tokens=pool, host_cache_gb=gb(host), disk_cache_dir=folder, **options)


def tiers_of(core: EngineCore) -> TieredKVCache:
    tiers = core.scheduler.cache.tiers
    assert tiers is not None
    return tiers


def prompts_of(count: int, length: int = 60) -> list[Sequence[int]]:
    return [random_tokens(length, seed=seed) for seed in range(count)]


def in_turn(core: EngineCore, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """What each prompt is continued by, one after another; all copies down are done after each."""
    found = []
    for prompt in prompts:
        found += answers(core, [prompt], PARAMS)
        if core.scheduler.cache.tiers is not None:
            core.scheduler.cache.tiers.drain_copies()
    return found


def hits(core: EngineCore) -> dict[str, int]:
    return {name: tier.hit_tokens for name, tier in core.stats().tiers.items()}


def test_what_the_device_evicts_comes_back_from_host_memory(path: Path) -> None:
    prompts = prompts_of(4)
    expected = in_turn(tiny_core(path, radix_cache=False), prompts)
    core = tiered(path)
    assert in_turn(core, prompts) == expected
    assert hits(core) == {"device": 0, "host": 0}
    assert in_turn(core, prompts) == expected
    assert hits(core)["host"] >= 3 * 56, "the last one may still be on the device"
    core.shutdown()


def test_what_host_memory_evicts_comes_back_from_disk(path: Path, tmp_path: Path) -> None:
    prompts = prompts_of(6)
    expected = in_turn(tiny_core(path, radix_cache=False), prompts)
    core = tiered(path, tmp_path, host=40)
    assert in_turn(core, prompts) == expected
    assert core.stats().tiers["host"].evicted_tokens > 0
    assert in_turn(core, prompts) == expected
    assert hits(core)["disk"] >= 3 * 56
    core.shutdown()


def test_a_restart_finds_the_disk_again_also_what_was_only_on_the_device(path: Path, tmp_path: Path) -> None:
    prompts = prompts_of(3)
    first = tiered(path, tmp_path, pool=2048)
    expected = in_turn(first, prompts)
    assert first.stats().tiers["disk"].cached == 0, "nothing had to go"
    first.shutdown()
    second = tiered(path, tmp_path)
    assert second.stats().tiers["disk"].cached >= 3 * 64
    assert in_turn(second, prompts) == expected
    assert hits(second) == {"device": 0, "host": 0, "disk": 3 * 56}
    second.shutdown()


def test_a_prefix_hit_twice_is_on_disk_before_it_is_evicted(path: Path, tmp_path: Path) -> None:
    core = tiered(path, tmp_path, pool=2048)
    system = random_tokens(40)
    in_turn(core, [[*system, *random_tokens(9, seed)] for seed in (1, 2, 3)])
    stats = core.stats()
    assert stats.evicted_tokens == 0
    assert stats.tiers["disk"].cached == 40
    core.shutdown()


def test_outputs_say_where_the_cached_tokens_came_from(path: Path, tmp_path: Path) -> None:
    core = tiered(path, tmp_path, host=40)
    prompts = prompts_of(6)
    in_turn(core, prompts)
    submit(core, prompts[0], PARAMS)
    last = finish(core)[-1]
    assert last.cached_tokens == 56
    assert last.disk_tokens + last.host_tokens == 56 and last.disk_tokens > 0
    core.shutdown()


def test_others_go_on_while_a_request_loads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = tiered(path, pool=160)
    prompts = prompts_of(4)
    expected = in_turn(core, prompts)
    release = hold_transfers(core)
    loading = submit(core, prompts[0], PARAMS)
    other = submit(core, random_tokens(10, seed=99), PARAMS)
    for _ in range(7):
        step(core)
    assert other.finish is not None
    assert loading in core.scheduler.loading and core.stats().loading == 1
    release()
    finish(core)
    assert list(loading.tokens[loading.prompt_len :]) == expected[0]
    core.shutdown()


def hold_transfers(core: EngineCore) -> Callable[[], None]:
    """Stop the transfer thread until the function returned is called."""
    import threading

    gate = threading.Event()
    tiers_of(core)._copies.transfer.submit_copy(lambda: (gate.wait(), None)[1])
    return gate.set


def test_a_request_aborted_while_loading_gives_its_pages_back_once_they_are_filled(path: Path) -> None:
    core = tiered(path)
    prompts = prompts_of(4)
    expected = in_turn(core, prompts)
    release = hold_transfers(core)
    request = submit(core, prompts[0], PARAMS, name="same")
    step(core)
    assert request in core.scheduler.loading
    output = core.abort_request(request)
    assert output is not None and output.finish is not None and output.finish.type == "abort"
    core.scheduler.check()
    assert not core.has_work
    again = submit(core, prompts[0], PARAMS, name="same")
    release()
    finish(core)
    assert list(again.tokens[again.prompt_len :]) == expected[0]
    core.flush_cache()
    assert core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total
    core.shutdown()


def test_after_a_failure_nobody_waits_for_what_was_loading(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tiered(path)
    prompts = prompts_of(4)
    expected = in_turn(core, prompts)

    def fail(request: EngineRequest) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        release = hold_transfers(core)
        request = submit(core, prompts[0], PARAMS)
        submit(core, prompts[1], PARAMS)
        step(core)
        assert request in core.scheduler.loading
        broken.setattr(core.scheduler.cache, "insert_pages", fail)
        release()
        with pytest.raises(ZeroDivisionError):
            while core.has_work:
                core.step()
        core.reset_state()
    assert core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total
    assert in_turn(core, prompts) == expected
    core.shutdown()


def test_a_flush_empties_every_tier_also_after_a_restart(path: Path, tmp_path: Path) -> None:
    core = tiered(path, tmp_path)
    prompts = prompts_of(4)
    expected = in_turn(core, prompts)
    release = hold_transfers(core)
    request = submit(core, prompts[0], PARAMS)
    step(core)
    core.abort_request(request)
    release()
    core.flush_cache()
    core.scheduler.check()
    assert {tier.cached for tier in core.stats().tiers.values()} == {0}
    assert core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total
    core.shutdown()
    again = tiered(path, tmp_path)
    assert again.stats().tiers["disk"].cached == 0
    assert in_turn(again, prompts) == expected
    again.shutdown()


def test_namespaces_share_nothing_in_any_tier(path: Path, tmp_path: Path) -> None:
    core = tiered(path, tmp_path, host=40)
    prompts = prompts_of(6)
    in_turn(core, prompts)
    core.shutdown()
    core = tiered(path, tmp_path, host=40)
    mine = submit(core, prompts[0], PARAMS)
    finish(core)
    theirs = submit(core, prompts[0], PARAMS, namespace="other")
    finish(core)
    assert mine.cached_tokens == 56 and theirs.cached_tokens == 0
    core.shutdown()


def test_a_short_prefix_is_computed_and_not_fetched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers_module, "MIN_LOAD_TOKENS", 60)
    core = tiered(path)
    prompts = prompts_of(4)
    assert in_turn(core, prompts) == in_turn(core, prompts)
    assert hits(core)["host"] == 0
    core.shutdown()


def test_when_copying_is_too_far_behind_pages_are_dropped_and_answers_right(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tiered(path)
    prompts = prompts_of(4)
    expected = in_turn(tiny_core(path, radix_cache=False), prompts)
    monkeypatch.setattr(tiers_module, "BACKLOG_BYTES", 0)
    release = hold_transfers(core)
    assert answers(core, prompts, PARAMS) == expected
    assert core.stats().tiers["host"].lost_tokens > 0
    release()
    core.shutdown()


def test_new_weights_find_nothing_of_the_old_ones(path: Path, tmp_path: Path) -> None:
    core = tiered(path, tmp_path)
    prompts = prompts_of(4)
    in_turn(core, prompts)
    tiers_of(core).clear_tiers(weights="other", weight_version="v2")
    core.scheduler.reset_prefix_cache()
    core.shutdown()
    again = tiered(path, tmp_path)
    assert again.stats().tiers["disk"].cached == 0
    again.shutdown()


@pytest.mark.parametrize("option", [{"weight_version": "v2"}, {"page_size": 2}, {"kv_cache_dtype": "int8"}])
def test_a_disk_that_was_written_for_something_else_is_not_used(
    path: Path, tmp_path: Path, option: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = tiered(path, tmp_path)
    in_turn(first, prompts_of(4))
    first.shutdown()
    second = tiered(path, tmp_path, **option)
    assert second.stats().tiers["disk"].cached == 0
    assert "was written for another model" in caplog.text
    second.shutdown()


def test_host_memory_that_holds_no_page_or_more_than_there_is_is_refused(path: Path) -> None:
    with pytest.raises(EngineError, match="must hold at least one KV page"):
        tiny_core(path, host_cache_gb=1e-7)
    with pytest.raises(EngineError, match="more than the .* GB of free memory"):
        tiny_core(path, host_cache_gb=1e6)


@pytest.mark.parametrize("file", ["kv.slab", "kv.index"])
@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_anywhere_in_the_files_never_give_a_wrong_token(
    path: Path, tmp_path: Path, file: str, seed: int
) -> None:
    prompts = prompts_of(4)
    first = tiered(path, tmp_path)
    expected = in_turn(first, prompts)
    first.shutdown()
    pick = random.Random(seed)
    content = bytearray((tmp_path / file).read_bytes())
    for at in pick.sample(range(4096 if file == "kv.slab" else 40, len(content)), len(content) // 600):
        content[at] ^= pick.randrange(1, 256)
    (tmp_path / file).write_bytes(content)
    second = tiered(path, tmp_path)
    assert in_turn(second, prompts) == expected
    lost = second.stats().tiers["disk"].lost_tokens
    assert lost if file == "kv.slab" else not lost
    assert in_turn(second, prompts) == expected
    second.shutdown()


def soak(core: EngineCore, expected: dict[tuple[int, ...], list[int]], count: int, seed: int) -> None:
    """Requests that come, go on and are aborted at random; whoever finishes has the right answer."""
    pick = random.Random(seed)
    prompts = list(expected)
    live: dict[str, EngineRequest] = {}
    right = 0
    while core.has_work or count:
        if count and (not core.has_work or pick.random() < 0.4):
            count -= 1
            request = submit(core, pick.choice(prompts), PARAMS, name=f"s{count}")
            live[request.id] = request
        if live and pick.random() < 0.05:
            core.abort_request(live.pop(pick.choice(list(live))))
            core.scheduler.check()
        for output in step(core):
            if output.finish is not None:
                request = live.pop(output.request_id)
                prompt, answer = request.tokens[: request.prompt_len], request.tokens[request.prompt_len :]
                assert list(answer) == expected[tuple(prompt)]
                right += 1
    assert right > 0
    core.flush_cache()
    core.scheduler.check()
    assert core.scheduler.cache.pool.num_free == core.scheduler.cache.pool.total


def soak_over_all_tiers(path: Path, folder: Path, count: int, seed: int, **options: Any) -> None:
    pick = random.Random(seed)
    systems = [random_tokens(length, seed=length) for length in (0, 20, 40)]
    prompts = [
        (*pick.choice(systems), *random_tokens(pick.randint(1, 40), seed=pick.randrange(30)))
        for _ in range(40)
    ]
    alone = in_turn(tiny_core(path, radix_cache=False, **options), prompts)
    host = (
        30 if options["kv_cache_dtype"] == "auto" else 30 * 16 // 48
    )  # int8 pages of this model are smaller
    core = tiered(path, folder, pool=120, host=host, disk_cache_gb=60 * 4096 / 1e9, max_running=4, **options)
    soak(core, dict(zip(prompts, alone, strict=True)), count, seed)
    stats = core.stats().tiers
    assert all(tier.hit_tokens for tier in stats.values()), stats
    assert all(tier.evicted_tokens for tier in stats.values()), stats
    core.shutdown()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 60 * 4096


@pytest.mark.parametrize("kv_cache_dtype", ["auto", pytest.param("int8", marks=pytest.mark.slow)])
def test_random_traffic_over_three_tiny_tiers_gives_no_wrong_token(
    path: Path, tmp_path: Path, kv_cache_dtype: str
) -> None:
    soak_over_all_tiers(path, tmp_path, 150, 0, kv_cache_dtype=kv_cache_dtype)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_soak_over_three_tiny_tiers_gives_no_wrong_token(path: Path, tmp_path: Path, seed: int) -> None:
    soak_over_all_tiers(path, tmp_path, 1500, seed, kv_cache_dtype="auto")
