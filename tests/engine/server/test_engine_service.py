"""Work that is done in threads, so that other requests need not wait."""

import asyncio
import threading
from functools import partial

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_two_texts_at_a_time_and_none_for_a_client_that_left_meanwhile(served: Served) -> None:
    loop = asyncio.get_running_loop()
    begun: asyncio.Queue[int] = asyncio.Queue()
    go_on = threading.Event()

    def work(number: int) -> int:
        loop.call_soon_threadsafe(begun.put_nowait, number)
        go_on.wait()
        return number

    tasks = [
        asyncio.create_task(served.app.service.run_off_loop(partial(work, number), characters=10**6))
        for number in range(5)
    ]
    first = {await begun.get(), await begun.get()}
    tasks[3].cancel()
    await asyncio.wait({tasks[3]})
    go_on.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert first == {0, 1}
    assert {begun.get_nowait() for _ in range(begun.qsize())} == {2, 4}
