"""The service: off the event loop, bounded, fair, cancellable; and one pass per request."""

import asyncio
import threading

import numpy as np
import pytest

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import (
    SHARED_CHARACTERS,
    EncodeOnceMiddleware,
    EncoderBusyError,
    EncoderClosedError,
    EncoderError,
    EncoderService,
    EncoderTimeoutError,
    RequestEncodings,
    load_encoder,
    start_service,
)

LONG = "apples, rivers and the price of copper " * 250


class Gated:
    """An encoder that begins no text before the gate opens, and remembers which it finished."""

    def __init__(self, encoder):
        self.encoder = encoder
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.finished = []
        self.windows = 0

    def encode_steps(self, text, *, layers=()):
        self.begun.set()
        self.gate.wait(30)
        steps = self.encoder.encode_steps(text, layers=layers)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                self.finished.append((text, tuple(layers)))
                return done.value
            self.windows += 1
            yield


@pytest.fixture
def gated(int8):
    return Gated(int8)


@pytest.fixture
async def service(gated):
    service = EncoderService(lambda: gated, queue=3)
    yield service
    gated.gate.set()
    await service.aclose()


async def begun(gated, *texts, service, layers=()):
    """Tasks that await `texts`, the first of which is being read."""
    tasks = [asyncio.ensure_future(service.encode(text, layers=layers)) for text in texts]
    await asyncio.to_thread(gated.begun.wait)
    return tasks


async def test_a_text_is_read_off_the_event_loop(service, gated, int8):
    (task,) = await begun(gated, "hello", service=service)
    assert not task.done()
    gated.gate.set()
    np.testing.assert_array_equal((await task).vector, int8.encode(["hello"])[0].vector)


async def test_a_full_queue_says_so_at_once(service, gated):
    tasks = await begun(gated, "one", "two", "three", service=service)
    with pytest.raises(EncoderBusyError, match=r"3 texts wait .*encoders\.queue"):
        await service.encode("four")
    gated.gate.set()
    await asyncio.gather(*tasks)
    await service.encode("four")


async def test_whoever_stops_waiting_frees_the_place_and_is_not_read(service, gated):
    first, second, third = await begun(gated, "one", "two", "three", service=service)
    second.cancel()
    await asyncio.wait([second])
    fourth = asyncio.ensure_future(service.encode("four"))
    await asyncio.sleep(0)
    gated.gate.set()
    await asyncio.gather(first, third, fourth)
    assert [text for text, _ in gated.finished] == ["one", "three", "four"]


async def test_short_texts_pass_a_long_one(service, gated):
    tasks = await begun(gated, LONG, "short", service=service)
    gated.gate.set()
    await asyncio.gather(*tasks)
    assert [text for text, _ in gated.finished] == ["short", LONG]


async def test_a_long_text_that_nobody_awaits_any_more_is_left(service, gated):
    (task,) = await begun(gated, LONG, service=service)
    task.cancel()
    await asyncio.wait([task])
    gated.gate.set()
    await service.encode("short")
    assert gated.windows <= 1
    assert [text for text, _ in gated.finished] == ["short"]
    assert service.waiting == 0


async def test_closing_tells_those_who_wait_and_those_who_come(service, gated):
    tasks = await begun(gated, LONG, "two", service=service)
    service.close()
    gated.gate.set()
    for task in tasks:
        with pytest.raises(EncoderClosedError):
            await task
    with pytest.raises(EncoderClosedError):
        await service.encode("three")


async def test_an_encoder_that_cannot_be_loaded_says_why_every_time(tmp_path, caplog):
    service = EncoderService(lambda: load_encoder(EncodersConfig(model=str(tmp_path))))
    for _ in range(2):
        with pytest.raises(EncoderError, match=r"config\.json"):
            await service.encode("hello")
    assert "config.json" in service.failure
    assert len(caplog.records) == 1
    await service.aclose()


async def test_a_mistake_in_loading_is_an_encoder_error_too(caplog):
    service = EncoderService(lambda: 1 // 0)
    with pytest.raises(EncoderError, match="division"):
        await service.wait_until_ready()
    await service.aclose()


async def test_an_error_of_one_text_is_its_own(service, gated):
    gated.gate.set()
    with pytest.raises(ValueError, match="layers"):
        await service.encode("hello", layers=(9,))
    assert (await service.encode("hello")).tokens == 1


async def test_started_ahead_it_is_loaded_without_a_text(gated):
    service = EncoderService(lambda: gated)
    service.start()
    assert await service.wait_until_ready() is gated
    await service.aclose()


async def test_several_threads_read_all_there_is(int8):
    service = EncoderService(lambda: int8, threads=3)
    texts = [f"number {number}" for number in range(40)]
    read = await asyncio.gather(*(service.encode(text) for text in texts))
    for encoding, told in zip(read, int8.encode(texts), strict=True):
        np.testing.assert_array_equal(encoding.vector, told.vector)
    await service.aclose()


async def test_all_heads_of_a_request_share_one_pass(service, gated):
    gated.gate.set()
    encodings = RequestEncodings(service, layers=(2, 4, 6))
    wanted = [encodings.encode("hello", layers=layers) for layers in ((), (2,), (4, 6))]
    first, *others = await asyncio.gather(*wanted)
    assert all(other is first for other in others)
    assert await encodings.encode("hello") is first
    assert gated.finished == [("hello", (2, 4, 6))]


async def test_a_layer_that_was_not_announced_costs_another_pass(service, gated):
    gated.gate.set()
    encodings = RequestEncodings(service, layers=(2,))
    await encodings.encode("hello")
    assert (await encodings.encode("hello", layers=(4,))).states.keys() == {2, 4}
    assert gated.finished == [("hello", (2,)), ("hello", (2, 4))]


async def test_one_head_that_gives_up_leaves_the_others_their_pass(service, gated):
    encodings = RequestEncodings(service)
    first, second = (asyncio.ensure_future(encodings.encode("hello")) for _ in range(2))
    await asyncio.to_thread(gated.begun.wait)
    first.cancel()
    await asyncio.wait([first])
    gated.gate.set()
    assert (await second).tokens == 1


async def test_a_pass_that_all_heads_gave_up_is_left(service, gated):
    encodings = RequestEncodings(service)
    heads = [asyncio.ensure_future(encodings.encode(LONG)) for _ in range(2)]
    await asyncio.to_thread(gated.begun.wait)
    for head in heads:
        head.cancel()
    await asyncio.wait(heads)
    gated.gate.set()
    await service.encode("short")
    assert [text for text, _ in gated.finished] == ["short"]


async def test_what_one_head_is_refused_the_others_are_too(service, gated):
    tasks = await begun(gated, "one", "two", "three", service=service)
    encodings = RequestEncodings(service)
    refused = await asyncio.gather(*(encodings.encode("four") for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in refused] == [EncoderBusyError] * 3
    gated.gate.set()
    await asyncio.gather(*tasks)


async def test_a_text_that_takes_too_long_is_given_up_for_all_heads_and_its_place_is_free(service, gated):
    encodings = RequestEncodings(service, wait_s=1e-9)
    refused = await asyncio.gather(*(encodings.encode(LONG) for _ in range(2)), return_exceptions=True)
    assert [type(error) for error in refused] == [EncoderTimeoutError] * 2
    with pytest.raises(EncoderTimeoutError, match=r"encoders\.wait_s"):
        await encodings.encode(LONG)  # not read again for a head that comes later
    gated.gate.set()
    await service.encode("short")
    assert [text for text, _ in gated.finished] == ["short"]


async def test_the_configured_service_reads_with_the_configured_model(encoders_home, int8):
    service = start_service(EncodersConfig(home=encoders_home, preload=True))
    assert (await service.wait_until_ready()).id == int8.id
    await service.aclose()


async def test_within_a_request_a_text_is_read_once_whichever_middleware_asks(service, gated):
    gated.gate.set()

    async def cache(request):
        first = await service.encode(request)
        return first, await asyncio.create_task(semantic(request))

    async def semantic(request):
        return await service.encode(request)

    for _ in range(2):
        first, second = await EncodeOnceMiddleware(service)("hello", cache)
        assert second is first
    await service.encode("hello")
    assert gated.finished == [("hello", ())] * 3


async def test_another_service_is_asked_itself_within_a_request(service, gated, int8):
    gated.gate.set()
    other = EncoderService(lambda: int8)

    async def both(text):
        return await service.encode(text), await other.encode(text)

    first, second = await EncodeOnceMiddleware(service)("hello", both)
    assert first is not second
    await other.aclose()


async def test_the_layers_of_a_text_too_long_to_keep_them_come_only_to_who_asks(service, gated):
    gated.gate.set()
    encodings = RequestEncodings(service, layers=(2,))
    longest = "a" * SHARED_CHARACTERS
    for text in (longest, longest + "b"):
        await encodings.encode(text)
    assert gated.finished == [(longest, (2,)), (longest + "b", ())]
    await encodings.encode(longest + "b", layers=(4,))
    assert gated.finished[-1] == (longest + "b", (4,))
