"""What the gateway's server and the engine's have in common: sockets, ASGI, request bodies.

It knows neither of them and imports nothing of ours.
"""

from radixway.web.asgi import App, ClientWatch, Message, Receive, Scope, Send
from radixway.web.bodies import BadBody, ClientGone, read_body, read_json
from radixway.web.serving import AppServer, CannotListen, bind, url_of

__all__ = [
    "App",
    "AppServer",
    "BadBody",
    "CannotListen",
    "ClientGone",
    "ClientWatch",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "bind",
    "read_body",
    "read_json",
    "url_of",
]
