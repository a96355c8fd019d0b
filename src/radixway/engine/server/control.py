"""Pausing and going on: what a trainer does around an update of the weights. SGLang's paths and fields."""

import asyncio

import msgspec

from radixway.engine.engine import PauseMode
from radixway.engine.server.exchange import HttpExchange
from radixway.engine.server.service import EngineService
from radixway.web import decode_json


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
