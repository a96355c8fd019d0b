"""An external processor for Envoy that decides nothing: what the protocol itself costs with this gRPC.

It answers each of the messages that Radixway is sent for a whole answer, and changes nothing.

    python benchmarks/idle_processor.py PORT
"""

from __future__ import annotations

import sys
from typing import Any

import grpc
import uvloop
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyResponse,
    CommonResponse,
    HeadersResponse,
    ProcessingResponse,
)

_ANSWERS = {
    "request_headers": ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse())),
    "request_body": ProcessingResponse(request_body=BodyResponse(response=CommonResponse())),
    "response_headers": ProcessingResponse(
        response_headers=HeadersResponse(response=CommonResponse()),
        mode_override=ProcessingMode(response_body_mode=ProcessingMode.BUFFERED),
    ),
    "response_body": ProcessingResponse(response_body=BodyResponse(response=CommonResponse())),
}


class Idle:
    """The servicer."""

    async def Process(self, _: Any, context: Any) -> None:  # noqa: N802 - gRPC's name for it
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(_ANSWERS[message.WhichOneof("request")])


async def serve(port: int) -> None:
    """Listen on 127.0.0.1 until killed; prints `ready` once it does."""
    server = grpc.aio.server()
    external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(Idle(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
