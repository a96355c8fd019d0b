"""Whatever happens to the other engine or on the way, the answer is that of one engine alone."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.conftest import Reference
from radixway.engine.disaggregation import prefill_kv_manager
from radixway.engine.engine_request import BootstrapRoom
from radixway.engine.errors import InvalidRequestError
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.weight_update import DiskWeights
from support.driving import answers, random_tokens, tiny_core
from support.pairs import GREEDY, Pair, checked, pair, tokens, transfers, whole
from support.relays import Relay, flip, relay

Make = Callable[[str], Reference]
PROMPT = random_tokens(300)
TOKEN_BYTES = 2 * 3 * 2 * 16 * 4  # keys and values, layers, KV heads, head size, bytes of a float
HALF = len(PROMPT) * TOKEN_BYTES // 2
ENDLESS = SamplingParams(temperature=0, ignore_eos=True)


@pytest.fixture(scope="module")
def path(reference: Make) -> Path:
    return reference("qwen3")[0]


@pytest.fixture(scope="module")
def expected(path: Path) -> list[int]:
    return answers(tiny_core(path, max_batch_tokens=64), [PROMPT], GREEDY)[0]


@pytest.fixture
def engines(path: Path) -> Iterator[Pair]:
    with pair(path, disaggregation_transfer="tcp") as engines:
        yield engines


@asynccontextmanager
async def held(engines: Pair) -> AsyncIterator[tuple[Relay, GenerationStream, GenerationStream]]:
    """One request, half of whose KV has arrived, unless that was given up before; both generations."""
    room = engines.room()
    with pytest.MonkeyPatch.context() as patch:
        # In small pieces layers take turns: half of the bytes are half of the tokens, however far ahead the
        # prefill was when the other engine came.
        patch.setattr(prefill_kv_manager, "MAX_CHUNK_BYTES", 1024)
        async with relay(room.port, hold_after=HALF) as half:
            prefilling = engines.prefill.submit_request(PROMPT, GREEDY, room=room)
            answering = engines.decode.submit_request(PROMPT, GREEDY, room=half.towards(room))
            while not half.reached.is_set() and not engines.received().reasons:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            yield half, prefilling, answering


def why(engines: Pair) -> str:
    """Why the one transfer failed."""
    (reason,) = engines.received().reasons
    return reason


@pytest.mark.parametrize("at", [7, 500, HALF, HALF + 1, HALF + 2, HALF + 3])
async def test_a_bit_that_was_turned_on_the_way_is_seen(engines: Pair, expected: list[int], at: int) -> None:
    room = engines.room()
    async with relay(room.port, spoil=flip(at)) as spoiling:
        prefilling = engines.prefill.submit_request(PROMPT, GREEDY, room=room)
        answering = engines.decode.submit_request(PROMPT, GREEDY, room=spoiling.towards(room))
        assert tokens(await whole(answering)) == expected
        assert why(engines) in ("a frame whose checksum is wrong", "a frame that is none")
        await prefilling.aclose()
    await checked(engines.decode)


async def test_a_connection_that_breaks_half_way_leaves_the_rest_to_the_decode_engine(
    engines: Pair, expected: list[int]
) -> None:
    async with held(engines) as (_, prefilling, answering):
        pass  # the relay ends with its connections
    outputs = await whole(answering)
    assert tokens(outputs) == expected
    assert why(engines) == "the other side left"
    assert 0 < outputs[-1].remote_tokens < len(PROMPT) - 1, "what had come is used"
    assert outputs[-1].remote_tokens % 4 == 0, "in whole pages"
    await whole(prefilling)
    for engine in (engines.prefill, engines.decode):
        await checked(engine)


async def test_a_prefill_engine_that_sends_nothing_more_is_given_up_after_a_while(
    path: Path, expected: list[int]
) -> None:
    quick = {"disaggregation_timeout_s": 0.3}
    with pair(path, decode=quick, disaggregation_transfer="tcp") as engines:
        async with held(engines) as (_, prefilling, answering):
            assert tokens(await whole(answering)) == expected
        assert why(engines) == "the other side is too slow"
        await whole(prefilling)
        await checked(engines.decode)


async def test_an_answer_that_is_aborted_frees_its_pages_though_its_kv_is_on_its_way(engines: Pair) -> None:
    async with held(engines) as (_, prefilling, answering):
        await answering.aclose()
        await checked(engines.decode)
    assert why(engines) == "aborted"
    await whole(prefilling)
    await checked(engines.prefill)


async def test_a_prefill_that_is_aborted_is_left_to_the_decode_engine(
    path: Path, expected: list[int]
) -> None:
    with pair(path) as engines:
        await asyncio.to_thread(
            engines.prefill.pause_generation, "in_place"
        )  # so that it has computed nothing yet
        prefilling, answering = engines.begin(PROMPT)
        await prefilling.aclose()
        assert tokens(await whole(answering)) == expected
        assert why(engines) == "the prefill was aborted"
        await asyncio.to_thread(engines.prefill.resume_generation)
        await checked(engines.prefill)


async def test_an_engine_that_is_not_there_is_done_without(engines: Pair, expected: list[int]) -> None:
    engines.prefill.stop()
    room = BootstrapRoom("127.0.0.1", engines.decode.config.disaggregation_bootstrap_port + 1, 7)
    answering = engines.decode.submit_request(PROMPT, GREEDY, room=room)
    assert tokens(await whole(answering)) == expected
    assert why(engines).startswith("the prefill engine cannot be reached")


async def test_a_host_that_is_none_is_done_without(engines: Pair, expected: list[int]) -> None:
    room = BootstrapRoom("no such host\0", 8998, 7)
    assert tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY, room=room))) == expected


async def test_a_request_that_the_prefill_engine_refuses_is_not_waited_for(
    engines: Pair, expected: list[int]
) -> None:
    room = engines.room()
    with pytest.raises(InvalidRequestError):
        engines.prefill.submit_request(PROMPT, SamplingParams(max_tokens=10**6), room=room)
    assert tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY, room=room))) == expected
    assert why(engines) == "the prefill engine refused the request"


async def test_kv_of_another_prompt_is_not_taken(engines: Pair, expected: list[int]) -> None:
    room = engines.room()
    prefilling = engines.prefill.submit_request(random_tokens(300, seed=1), GREEDY, room=room)
    assert tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY, room=room))) == expected
    assert why(engines) == "another prompt"
    await whole(prefilling)
    await checked(engines.prefill)


@pytest.mark.parametrize("version", ["default", "2"])
async def test_kv_of_other_weights_is_not_taken(engines: Pair, version: str) -> None:
    if version == "default":  # the same name, and other weights
        weights = DiskWeights(engines.decode.model_info.path, load_format="dummy")
        await asyncio.to_thread(engines.decode.update_weights, weights)
    else:
        await asyncio.to_thread(engines.decode.set_weight_version, version)
    found = tokens(await engines.answer(PROMPT))
    assert why(engines) == "other weights, or KV of another kind"
    await asyncio.to_thread(engines.decode.flush_cache)
    assert found == tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY)))


@pytest.mark.parametrize("keep_kv", [True, False])
@pytest.mark.parametrize("side", ["prefill", "decode"])
async def test_weights_that_change_half_way_end_the_transfer(engines: Pair, side: str, keep_kv: bool) -> None:
    engine = getattr(engines, side)
    other = DiskWeights(engine.model_info.path, load_format="dummy")
    async with held(engines) as (half, prefilling, answering):
        await asyncio.to_thread(engine.update_weights, other, keep_kv=keep_kv)
        half.go.set()
        found = tokens(await whole(answering))
        await whole(prefilling)
    ended = engines.received()
    all_had_left = side == "prefill" and ended.complete == 1  # into the sockets, before the weights changed
    assert ended.failed == 1 or all_had_left
    if side == "prefill" or not keep_kv:  # otherwise a mixture was asked for
        await asyncio.to_thread(engines.decode.flush_cache)
        assert found == tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY)))
    for engine in (engines.prefill, engines.decode):
        await checked(engine)


async def test_weights_that_change_before_a_sender_has_told_that_it_is_through_leave_no_page_behind(
    engines: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is over before it is told of, and the cache is emptied for all that."""
    side = engines.prefill._core.transfer_manager
    with monkeypatch.context() as patched:
        patched.setattr(side, "poll_ended", lambda wait_s=0.0: [])
        await engines.answer(PROMPT)
        other = DiskWeights(engines.prefill.model_info.path, load_format="dummy")
        await asyncio.to_thread(engines.prefill.update_weights, other)
        await asyncio.to_thread(engines.prefill._call_on_thread, engines.prefill._core.scheduler.check)
        await checked(engines.prefill)


async def test_a_room_is_for_one_request(engines: Pair, expected: list[int]) -> None:
    await asyncio.to_thread(engines.prefill.pause_generation, "in_place")  # what is sent whole ends a room
    prefilling, answering = engines.begin(PROMPT)
    room = prefilling.request.room
    assert room is not None
    manager = engines.prefill._core.transfer_manager
    assert isinstance(manager, prefill_kv_manager.PrefillKVManager)
    while room.number not in manager._claimed:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    with pytest.raises(InvalidRequestError, match="taken") as refusal:
        engines.prefill.submit_request(PROMPT, GREEDY, room=room)
    assert refusal.value.field == "bootstrap_room"
    second = engines.decode.submit_request(random_tokens(300, seed=2), GREEDY, room=room)
    await whole(second)
    assert why(engines) == "another engine claimed this room"
    await asyncio.to_thread(engines.prefill.resume_generation)
    assert tokens(await whole(answering)) == expected, "the first is none the worse for it"
    await whole(prefilling)
    assert engines.received().complete == 1


async def test_pages_that_nobody_comes_for_are_kept_for_a_while_only(path: Path) -> None:
    with pair(path, disaggregation_timeout_s=0.1) as engines:
        await whole(engines.prefill.submit_request(PROMPT, GREEDY, room=engines.room()))
        await checked(engines.prefill)
        assert transfers(engines.prefill).reasons == {"no engine fetched it in time": 1}


async def test_pausing_the_decode_engine_does_not_wait_for_what_is_on_its_way(
    engines: Pair, expected: list[int]
) -> None:
    async with held(engines) as (_, prefilling, answering):
        await asyncio.to_thread(engines.decode.pause_generation, "retract")
        await asyncio.to_thread(engines.decode.resume_generation)
        assert tokens(await whole(answering)) == expected
        await prefilling.aclose()


async def test_a_step_that_fails_leaves_no_thread_at_work(
    engines: Pair, expected: list[int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held(engines) as (half, prefilling, answering):
        with caplog.at_level(logging.CRITICAL), monkeypatch.context() as patched:
            patched.setattr(engines.decode._core.runner, "execute_model", None)
            failing = engines.decode.submit_request(random_tokens(5, seed=9), GREEDY)
            with pytest.raises(Exception, match="failed"):
                await whole(failing)
        half.go.set()
        with pytest.raises(Exception, match="failed"):
            await whole(answering)
        assert tokens(await whole(engines.decode.submit_request(PROMPT, GREEDY))) == expected
        await prefilling.aclose()
    await checked(engines.decode)
