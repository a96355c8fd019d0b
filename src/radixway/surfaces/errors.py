"""Errors in OpenAI's shape, which SGLang's clients read too."""

from __future__ import annotations

import msgspec

from radixway.pipeline import GatewayError


def error_json(error: GatewayError) -> bytes:
    """The body of an error reply."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return msgspec.json.encode(
        {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
    )


def error_event(error: GatewayError) -> bytes:
    """The same as a server-sent event."""
    return b"data: " + error_json(error) + b"\n\n"
