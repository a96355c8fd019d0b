"""The engine behind its thread: streams, aborts, refusals, and what happens when a step fails."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.conftest import Reference
from radixway.core.config.engine import EngineConfig
from radixway.engine.engine import Engine
from radixway.engine.engine_request import EngineRequest, FinishReason, RequestOutput, ScheduledRequest
from radixway.engine.errors import (
    EngineQueueFullError,
    EngineStoppedError,
    GenerationError,
    InvalidRequestError,
)
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.sampling_params import SamplingParams
from support.driving import GREEDY, answers, random_tokens, tiny_core

Make = Callable[[str], Reference]
ENDLESS = SamplingParams(temperature=0, ignore_eos=True)


@pytest.fixture
def engine(reference: Make) -> Iterator[Engine]:
    made = small_engine(reference)
    made.start()
    yield made
    made.stop()


def small_engine(reference: Make, **options: Any) -> Engine:
    defaults = {"model": str(reference("qwen3")[0]), "dtype": "float32", "threads": 1, "kv_tokens": 1024}
    return Engine(EngineConfig(**defaults | options))


async def whole(generation: GenerationStream) -> list[RequestOutput]:
    return [output async for output in generation]


def tokens(outputs: list[RequestOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


async def idle(engine: Engine) -> None:
    """Return when the engine has nothing left to do."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> None:
        if engine._core.has_work:
            engine._inbox.put_command(look)
        else:
            loop.call_soon_threadsafe(done.set)

    engine._inbox.put_command(look)
    await done.wait()


async def test_streams_give_what_the_core_computes(engine: Engine, reference: Make) -> None:
    prompts = [random_tokens(length, seed=length) for length in (5, 30, 31, 60)]
    streams = await asyncio.gather(*(whole(engine.submit_request(prompt, GREEDY)) for prompt in prompts))
    assert [tokens(stream) for stream in streams] == answers(tiny_core(reference("qwen3")[0]), prompts)
    for stream in streams:
        assert len(stream) == 8 and [output.finish is not None for output in stream] == [False] * 7 + [True]


async def test_closing_a_stream_frees_its_pages(engine: Engine) -> None:
    generation = engine.submit_request(random_tokens(20), ENDLESS)
    await anext(generation)
    await generation.aclose()
    await generation.aclose()
    assert await whole(generation) == []
    await idle(engine)
    stats = engine.stats()
    assert stats.running == stats.waiting == stats.kv_used == 0
    assert stats.generated_tokens < 490


async def test_cancelling_the_reader_aborts_its_request(engine: Engine) -> None:
    reader = asyncio.create_task(whole(engine.submit_request(random_tokens(20), ENDLESS, request_id="r")))
    other = engine.submit_request(random_tokens(20, 1), GREEDY)
    await anext(other)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert not engine.abort_request("r")
    assert len(await whole(other)) == 7
    await idle(engine)
    assert engine.stats().kv_used == 0


async def test_aborting_by_id_ends_the_stream_with_a_last_output(engine: Engine) -> None:
    generation = engine.submit_request(random_tokens(20), ENDLESS, request_id="mine")
    first = await anext(generation)
    assert engine.abort_request("mine")
    rest = await whole(generation)
    last = rest[-1]
    assert last.finish is not None and last.finish.type == "abort"
    assert last.completion_tokens == len(tokens([first, *rest]))
    assert not engine.abort_request("mine") and not engine.abort_request("nobody")


async def test_an_id_can_be_used_again_once_it_is_free(engine: Engine) -> None:
    first = engine.submit_request(random_tokens(20), ENDLESS, request_id="same")
    with pytest.raises(InvalidRequestError, match="same"):
        engine.submit_request(random_tokens(20), ENDLESS, request_id="same")
    await first.aclose()
    again = engine.submit_request(random_tokens(20), GREEDY, request_id="same")
    assert len(await whole(again)) == 8


async def test_a_full_queue_refuses(reference: Make) -> None:
    engine = small_engine(reference, max_running=1, max_queued=2)
    engine.start()
    streams = [engine.submit_request(random_tokens(5), ENDLESS) for _ in range(3)]
    with pytest.raises(EngineQueueFullError, match="3 requests"):
        engine.submit_request(random_tokens(5), ENDLESS)
    await streams[0].aclose()
    engine.submit_request(random_tokens(5), GREEDY)
    await asyncio.to_thread(engine.stop)


async def test_the_cache_is_flushed_only_when_nothing_runs(engine: Engine) -> None:
    prompt = random_tokens(40)
    await whole(engine.submit_request(prompt, GREEDY))
    generation = engine.submit_request(prompt, ENDLESS)
    assert (await anext(generation)).cached_tokens == 32
    assert not engine.flush_cache()
    await generation.aclose()
    assert engine.flush_cache()
    assert (await whole(engine.submit_request(prompt, GREEDY)))[0].cached_tokens == 0


async def test_stopping_tells_everyone(engine: Engine) -> None:
    readers = [
        asyncio.create_task(whole(engine.submit_request(random_tokens(9, seed), ENDLESS)))
        for seed in range(3)
    ]
    await asyncio.to_thread(engine.stop)
    engine.stop()
    for reader in readers:
        with pytest.raises(EngineStoppedError):
            await reader
    with pytest.raises(EngineStoppedError):
        engine.submit_request(random_tokens(9), GREEDY)
    with pytest.raises(EngineStoppedError):
        engine.stats()


async def test_nothing_is_taken_before_the_start(reference: Make) -> None:
    engine = small_engine(reference)
    with pytest.raises(EngineStoppedError):
        engine.submit_request(random_tokens(9), GREEDY)
    engine.stop()


def test_an_engine_that_was_never_started_lets_go_of_its_disk_cache(reference: Make, tmp_path: Path) -> None:
    for _ in range(2):
        engine = small_engine(reference, disk_cache_dir=tmp_path, disk_cache_gb=0.01)
        assert "disk" in engine._core.stats().tiers, "else another has it"
        engine.stop()
        engine.stop()


async def test_a_failing_step_fails_its_requests_and_no_later_ones(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(work: object) -> None:
        raise RuntimeError("the machine is on fire")

    with monkeypatch.context() as patch:
        patch.setattr(engine._core.runner, "execute_model", broken)
        with pytest.raises(GenerationError, match="on fire"):
            await whole(engine.submit_request(random_tokens(9), GREEDY))
    assert len(await whole(engine.submit_request(random_tokens(9), GREEDY))) == 8
    assert engine.stats().kv_used == 0


async def test_a_task_that_fails_between_steps_fails_its_requests_and_no_later_ones(engine: Engine) -> None:
    def broken() -> None:
        raise RuntimeError("the machine is on fire")

    going = engine.submit_request(random_tokens(9), ENDLESS)
    await anext(going)
    engine._inbox.put_command(broken)
    with pytest.raises(GenerationError, match="on fire"):
        await whole(going)
    assert len(await whole(engine.submit_request(random_tokens(9), GREEDY))) == 8


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_dies_tells_everyone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def deadly() -> None:
        raise SystemExit  # no Exception: nothing catches it

    going = engine.submit_request(random_tokens(9), ENDLESS)
    await anext(going)
    engine._inbox.put_command(deadly)
    with pytest.raises(EngineStoppedError):
        await whole(going)
    with pytest.raises(EngineStoppedError):
        engine.submit_request(random_tokens(9), GREEDY)


@pytest.fixture
def threads_that_switch_all_the_time() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Interrupted:
    """An output during whose delivery other threads run."""

    def __init__(self, output: RequestOutput) -> None:
        self._output = output

    @property
    def finish(self) -> FinishReason | None:
        time.sleep(0)
        return self._output.finish


class InstantModel:
    """In place of the core's runner: no model, so that a step is mostly what surrounds it."""

    def execute_model(self, work: Sequence[ScheduledRequest]) -> tuple[Tensor, list[EngineRequest]]:
        requests = [item.request for item in work if item.reaches_end]
        return torch.zeros(len(requests), 320), requests


@pytest.mark.usefixtures("threads_that_switch_all_the_time")
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
async def test_readers_that_leave_as_their_answers_end_harm_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = engine._core.step
    monkeypatch.setattr(engine._core, "runner", InstantModel())
    monkeypatch.setattr(engine._core, "step", lambda: [(request, Interrupted(o)) for request, o in step()])
    short = SamplingParams(temperature=0, max_tokens=1)
    for count in range(100):
        generations = [engine.submit_request([3], short, request_id=f"again-{i}") for i in range(16)]
        while engine._thread.is_alive() and len(engine._generations) == 16:  # the others end as they leave
            pass
        for generation in generations[:: 1 if count % 2 else -1]:
            await generation.aclose()
        assert not any(engine.abort_request(generation.request_id) for generation in generations)
    assert len(await whole(engine.submit_request([3], GREEDY))) == 8
    await idle(engine)
    assert engine.stats().kv_used == 0


@pytest.mark.usefixtures("threads_that_switch_all_the_time")
async def test_everyone_is_told_of_a_stop_in_the_middle_of_submissions(reference: Make) -> None:
    engine = small_engine(reference)
    engine._core.runner = InstantModel()  # type: ignore[assignment]
    engine.start()
    readers = [asyncio.create_task(whole(engine.submit_request([3], ENDLESS))) for _ in range(20)]
    stop = threading.Thread(target=engine.stop)
    stop.start()
    with pytest.raises(EngineStoppedError):
        while True:
            readers.append(asyncio.create_task(whole(engine.submit_request([3], GREEDY))))
            await asyncio.sleep(0)
    await asyncio.to_thread(stop.join)
    for ended in await asyncio.gather(*readers, return_exceptions=True):
        assert isinstance(ended, EngineStoppedError) or len(ended) == 8


async def test_the_event_loop_is_free_while_the_model_computes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine._core.runner.execute_model
    computing, go_on = threading.Event(), threading.Event()

    def slow(work: Any) -> Any:
        computing.set()
        go_on.wait()
        return run(work)

    monkeypatch.setattr(engine._core.runner, "execute_model", slow)
    generation = engine.submit_request(random_tokens(9), GREEDY)
    await asyncio.to_thread(computing.wait)
    assert engine.stats().running == 1
    late = engine.submit_request(random_tokens(9, 1), GREEDY)
    assert engine.abort_request(late.request_id)
    go_on.set()
    assert len(await whole(generation)) == 8
    assert [output.token_ids for output in await whole(late)] == [[]]


def test_a_loop_that_was_closed_leaves_no_request_behind(engine: Engine) -> None:
    async def submit_and_go() -> None:
        await anext(engine.submit_request(random_tokens(9), ENDLESS))

    asyncio.run(submit_and_go())

    async def others() -> None:
        assert len(await whole(engine.submit_request(random_tokens(9, 1), GREEDY))) == 8
        await idle(engine)

    asyncio.run(others())
    assert engine.stats().running == 0


async def test_model_info_says_what_runs(engine: Engine, reference: Make) -> None:
    info = engine.model_info
    path, model = reference("qwen3")
    assert (info.path, info.name) == (str(path), path.name)
    assert (info.architecture, info.dtype, info.device) == ("Qwen3ForCausalLM", "float32", "cpu")
    assert (info.vocab_size, info.context_length, info.eos_token_ids) == (320, 512, {2})
    assert info.parameters == sum(p.numel() for p in model.parameters())
