"""The engine over HTTP: OpenAI's and SGLang's protocols, health, metrics.

`build_app` makes the ASGI application over an engine; `serve` runs an engine behind it.
"""

from radixway.engine.server.app import build_app
from radixway.engine.server.launcher import AddressInUseError, serve

__all__ = ["AddressInUseError", "build_app", "serve"]
