"""What the gateway's server and the engine's have in common: sockets, ASGI, bodies, server-sent events.

It knows neither of them and imports nothing of ours.
"""

from radixway.web.asgi import App, ClientWatch, Message, Receive, Scope, Send, request_id_of
from radixway.web.attempt_limiter import AttemptLimiter
from radixway.web.bodies import ClientGone, limited, read_body, read_fields, read_json, read_open
from radixway.web.connections import ServerStopping, is_ending, uncancel_at_end
from radixway.web.errors import BadBody, HttpError, MethodNotAllowed, ReshapedError, send_error
from radixway.web.head_limit import HeadLimit, HeadTooLarge
from radixway.web.limits import ServerCounts, ServerLimits, raise_file_limit
from radixway.web.process_end import end_process_within, keep_process, run_to_end
from radixway.web.request_origin import OriginCheck
from radixway.web.routes import join
from radixway.web.serving import AppServer, CannotListen, bind, bind_unix, is_loopback_host, url_of
from radixway.web.via import LoopDetected, Via

__all__ = [
    "App",
    "AppServer",
    "AttemptLimiter",
    "BadBody",
    "CannotListen",
    "ClientGone",
    "ClientWatch",
    "HeadLimit",
    "HeadTooLarge",
    "HttpError",
    "LoopDetected",
    "Message",
    "MethodNotAllowed",
    "OriginCheck",
    "Receive",
    "ReshapedError",
    "Scope",
    "Send",
    "ServerCounts",
    "ServerLimits",
    "ServerStopping",
    "Via",
    "bind",
    "bind_unix",
    "end_process_within",
    "is_ending",
    "is_loopback_host",
    "join",
    "keep_process",
    "limited",
    "raise_file_limit",
    "read_body",
    "read_fields",
    "read_json",
    "read_open",
    "request_id_of",
    "run_to_end",
    "send_error",
    "uncancel_at_end",
    "url_of",
]
