"""Pausing and going on: what a trainer does around an update of the weights. SGLang's paths and fields.

What SGLang's frontend language asks of a server besides /generate.
"""

import asyncio

import msgspec

from radixway.core.http import decode_json
from radixway.engine.engine import PauseMode
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.http_exchange import HttpExchange


class PauseBody(msgspec.Struct):
    """The body of /pause_generation; there need not be one."""

    mode: PauseMode = "abort"


_pause_decoder = msgspec.json.Decoder(PauseBody)


async def pause_generation(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Compute nothing until told to go on; requests that come meanwhile wait."""
    body = decode_json(_pause_decoder, raw or b"{}")
    await asyncio.to_thread(service.engine.pause_generation, body.mode)
    await exchange.send_json(b'{"status":"ok","message":"generation is paused"}')


async def continue_generation(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Go on; fine without a pause too."""
    await asyncio.to_thread(service.engine.resume_generation)
    await exchange.send_json(b'{"status":"ok","message":"generation goes on"}')


class ConcatenateBody(msgspec.Struct):
    """The programs, by the frontend's names for them, whose texts continue that of `dst_rid`."""

    src_rids: list[str]
    dst_rid: str


_decoder = msgspec.json.Decoder(ConcatenateBody)


async def concatenate(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """POST /concate_and_append_request: branches of a program were joined, one after another.

    Nothing has to be done: the frontend has appended their texts to the program's own, and sends all of it
    with the next request. What of it is cached is found by its tokens. (KV that was computed behind another
    text is not reused: it would not be what the model computes for this one.)
    """
    decode_json(_decoder, raw)
    await exchange.send_json(b'{"success":true}')
