"""Posts exports, and reads each answer of the collector in bounded time."""

from time import monotonic
from typing import Any

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

_MAX_RESPONSE_BYTES = 1 << 16
"""Bytes of a collector's answer."""
_RESPONSE_TIMEOUT_S = 10.0
"""OpenTelemetry's default timeout."""


class ExportRejectedError(Exception):
    """The collector answered, and has not taken what was sent; the message says why."""


class OtlpSession(requests.Session):
    """The session of an exporter, which takes each answer below 400 for a success and knows no more of it."""

    def __init__(self) -> None:
        super().__init__()
        self.rejected = 0
        """Spans of the last export that the collector says it has not kept, and …"""
        self.why = ""
        """… why; or why no answer came at all."""

    def request(self, *args: Any, **more: Any) -> requests.Response:
        """Implement `requests.Session`. `timeout` is of the whole answer. Raises ExportRejectedError too."""
        self.rejected, self.why = 0, ""
        deadline = monotonic() + (more.get("timeout") or _RESPONSE_TIMEOUT_S)
        try:
            answering = super().request(*args, **{**more, "stream": True})
        except requests.RequestException as error:
            self.why = str(error)
            raise
        with answering as response:
            if response.is_redirect or response.is_permanent_redirect:
                raise ExportRejectedError(
                    f"it leads elsewhere ({response.status_code}), where no traces are sent"
                )
            body = _read_limited(response, deadline)
        if response.ok:
            self._read_answer(body)
        return response

    def _read_answer(self, body: bytes) -> None:
        try:
            partly = ExportTraceServiceResponse.FromString(body).partial_success
        except DecodeError:  # it is no collector's answer, but it was a success
            return
        self.rejected, self.why = partly.rejected_spans, partly.error_message


def _read_limited(response: requests.Response, deadline: float) -> bytes:
    body = bytearray()
    while piece := response.raw.read1(_MAX_RESPONSE_BYTES, decode_content=True):
        body += piece
        if len(body) > _MAX_RESPONSE_BYTES:
            raise ExportRejectedError("its answer does not end")
        if monotonic() > deadline:
            raise ExportRejectedError("its answer does not end in time")
    return bytes(body)
