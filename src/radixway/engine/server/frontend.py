"""What SGLang's frontend language asks of a server besides /generate."""

import msgspec

from radixway.engine.server.exchange import HttpExchange
from radixway.engine.server.service import EngineService
from radixway.web import decode_json


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
