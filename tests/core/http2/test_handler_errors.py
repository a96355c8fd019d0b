"""Handlers that raise: their own stream ends, and no other."""

import pytest

from radixway.core.http2.frames import END_STREAM, ErrorCode, FrameKind, encode_number
from support.http2_frames import Echo, EchoServer, frame_client


class FailingEcho(Echo):
    """Raises whatever it hears."""

    def on_data(self, data: bytes) -> None:
        raise ValueError("on_data")

    def on_end(self) -> None:
        raise ValueError("on_end")

    def on_reset(self) -> None:
        super().on_reset()
        raise ValueError("on_reset")


class FailingServer(EchoServer):
    """Its stream 3 has a handler that raises, its stream 5 cannot be opened."""

    def open_stream(self, stream, headers):
        echo = super().open_stream(stream, headers)
        if stream.id == 5:
            raise ValueError("open_stream")
        return FailingEcho(stream, self) if stream.id == 3 else echo


@pytest.mark.parametrize(
    ("stream_id", "flags", "data"), [(3, 0, b"x"), (3, END_STREAM, b""), (3, END_STREAM, b"x"), (5, 0, b"x")]
)
async def test_a_handler_that_raises_ends_its_stream_alone(stream_id, flags, data, caplog):
    async with frame_client(server=FailingServer()) as (client, server):
        client.open(1)
        client.open(stream_id)
        client.send(FrameKind.DATA, flags, stream_id, data)
        client.send(FrameKind.DATA, END_STREAM, 1, b"hello")
        ended = await client.until(FrameKind.RST_STREAM)
        assert ended[2:] == (stream_id, encode_number(ErrorCode.INTERNAL_ERROR))
        assert await client.reply(1) == b"hello"
        assert server.reset == ([3] if stream_id == 3 else []) and server.ended == [1]
        assert f"stream {stream_id} failed" in caplog.text


async def test_a_handler_that_raises_as_it_is_reset_leaves_the_others_to_be_told():
    async with frame_client(server=FailingServer()) as (client, server):
        for stream_id in (1, 3, 7):
            client.open(stream_id)
        client.send(FrameKind.PING, 0, 0, bytes(8))
        await client.until(FrameKind.PING)
        client.abort()
        await server.is_gone.wait()
        assert server.reset == [1, 3, 7] and not server.connections
