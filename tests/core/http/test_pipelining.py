"""Requests that are sent before the answer to the one before: a client that leaves is noticed still."""

import pytest

from support.web_served import head, served


@pytest.mark.parametrize(
    "after",
    [
        b"",
        head("/refuse"),
        head("/refuse") * 3,
        b"GET /refuse HTT",
        head("/read", "content-length: 1000", method="POST") + b"x",
        head("/read", "content-length: 200000", method="POST") + b"x" * 100_000,
        head("/refuse") * 100,
        b"\0\1\2 no request",
    ],
    ids=["nothing", "one", "three", "part", "body", "large body", "hundred", "garbage"],
)
async def test_a_client_that_leaves_is_noticed_whatever_it_sent_after_its_request(after):
    async with served() as running:
        peer = await running.connect()
        await peer.send(head("/wait", "content-length: 2", method="POST") + b"{}")
        assert await running.next_beginning() == "/wait"
        await peer.send(after)
        assert (await running.ask("/refuse"))[0] == 401  # what was sent has been read by now
        assert await running.next_end() == "refused"
        peer.close()
        assert await running.next_end() == "left"


async def test_all_that_wait_are_answered_in_their_order():
    async with served() as running:
        peer = await running.connect()
        await peer.send(
            head("/wait") + head("/read", "content-length: 3", method="POST") + b"abc" + head("/refuse")
        )
        await running.next_beginning()
        running.app.release.set()
        assert [(await peer.answer())[2] for _ in range(3)] == [b"released", b"3", b"no"]


async def test_who_leaves_is_not_answered_further():
    async with served() as running:
        peer = await running.connect()
        await peer.send(head("/wait") + head("/refuse"))
        assert await running.next_beginning() == "/wait"
        peer.close()
        assert await running.next_end() == "left"
        assert running.app.began.empty()


@pytest.mark.parametrize("after", [head("/refuse") * 100, b"\0\1\2 no request"], ids=["too many", "garbage"])
async def test_an_answer_under_way_is_whole_when_what_follows_cannot_be_read(after):
    async with served() as running:
        peer = await running.connect()
        await peer.send(head("/stream"))
        await running.next_beginning()
        await peer.send(after)
        assert (await running.ask("/refuse"))[0] == 401
        running.app.release.set()
        said = await peer.rest()
        assert b"begun" in said and said.endswith(b"over\r\n0\r\n\r\n")
        assert b" 400 " not in said
