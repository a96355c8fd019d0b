"""What the gateway's server and the engine's have in common: sockets, ASGI, bodies, server-sent events.

It knows neither of them and imports nothing of ours.
"""

from radixway.web.asgi import App, ClientWatch, Message, Receive, Scope, Send, choose_request_id
from radixway.web.attempt_limiter import AttemptLimiter
from radixway.web.bodies import (
    ClientDisconnectedError,
    decode_json,
    decode_open_struct,
    decode_query,
    limit_body,
    read_body,
)
from radixway.web.connections import ServerStoppingError, is_server_stopping, uncancel_at_end
from radixway.web.errors import BadBodyError, HttpError, MethodNotAllowedError, ReshapedError, send_error
from radixway.web.head_limit import HeadLimit, HeadTooLargeError
from radixway.web.limits import ServerCounts, ServerLimits, raise_file_limit
from radixway.web.process_end import cancel_process_exit, exit_process_within, run_until_exit
from radixway.web.request_origin import OriginCheck
from radixway.web.routes import include_routes
from radixway.web.serving import (
    AppServer,
    CannotListenError,
    bind_tcp,
    bind_unix,
    is_loopback_host,
    listener_url,
)
from radixway.web.via import LoopDetectedError, LoopGuard

__all__ = [
    "App",
    "AppServer",
    "AttemptLimiter",
    "BadBodyError",
    "CannotListenError",
    "ClientDisconnectedError",
    "ClientWatch",
    "HeadLimit",
    "HeadTooLargeError",
    "HttpError",
    "LoopDetectedError",
    "LoopGuard",
    "Message",
    "MethodNotAllowedError",
    "OriginCheck",
    "Receive",
    "ReshapedError",
    "Scope",
    "Send",
    "ServerCounts",
    "ServerLimits",
    "ServerStoppingError",
    "bind_tcp",
    "bind_unix",
    "cancel_process_exit",
    "choose_request_id",
    "decode_json",
    "decode_open_struct",
    "decode_query",
    "exit_process_within",
    "include_routes",
    "is_loopback_host",
    "is_server_stopping",
    "limit_body",
    "listener_url",
    "raise_file_limit",
    "read_body",
    "run_until_exit",
    "send_error",
    "uncancel_at_end",
]
