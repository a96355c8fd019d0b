"""Parts that the gateway's server and the engine's share: sockets, ASGI, bodies, server-sent events.

It knows neither of them and imports nothing of ours.

State, and the file that owns it:

- `connections.py`: a server's connections and the bytes of bodies being read; released on every way out
"""

from radixway.core.http.asgi import App, Message, Receive, Scope, Send, choose_request_id
from radixway.core.http.attempt_limiter import AttemptLimiter
from radixway.core.http.connections import (
    ServerCounts,
    ServerLimits,
    ServerStoppingError,
    include_routes,
    is_server_stopping,
    raise_file_limit,
    uncancel_at_end,
)
from radixway.core.http.errors import (
    BadBodyError,
    HttpError,
    MethodNotAllowedError,
    ReshapedError,
    send_error,
)
from radixway.core.http.exchange import SENT, AsgiExchange, ClientWatch, HttpExchange, RequestDeadlines
from radixway.core.http.form_body import FormBody, parse_form
from radixway.core.http.head_limit import HeadLimit
from radixway.core.http.lazy_routes import LazyRouter
from radixway.core.http.request_body import (
    ClientDisconnectedError,
    decode_json,
    decode_open_struct,
    decode_query,
    field_error,
    limit_body,
    read_body,
    replay_body,
)
from radixway.core.http.request_origin import LoopDetectedError, LoopGuard, OriginCheck
from radixway.core.http.serving import (
    AppServer,
    CannotListenError,
    bind_tcp,
    bind_tcp_shared,
    bind_unix,
    cancel_process_exit,
    exit_process,
    exit_process_within,
    is_loopback_host,
    run_until_exit,
)

__all__ = [
    "SENT",
    "App",
    "AppServer",
    "AsgiExchange",
    "AttemptLimiter",
    "BadBodyError",
    "CannotListenError",
    "ClientDisconnectedError",
    "ClientWatch",
    "FormBody",
    "HeadLimit",
    "HttpError",
    "HttpExchange",
    "LazyRouter",
    "LoopDetectedError",
    "LoopGuard",
    "Message",
    "MethodNotAllowedError",
    "OriginCheck",
    "Receive",
    "RequestDeadlines",
    "ReshapedError",
    "Scope",
    "Send",
    "ServerCounts",
    "ServerLimits",
    "ServerStoppingError",
    "bind_tcp",
    "bind_tcp_shared",
    "bind_unix",
    "cancel_process_exit",
    "choose_request_id",
    "decode_json",
    "decode_open_struct",
    "decode_query",
    "exit_process",
    "exit_process_within",
    "field_error",
    "include_routes",
    "is_loopback_host",
    "is_server_stopping",
    "limit_body",
    "parse_form",
    "raise_file_limit",
    "read_body",
    "replay_body",
    "run_until_exit",
    "send_error",
    "uncancel_at_end",
]
