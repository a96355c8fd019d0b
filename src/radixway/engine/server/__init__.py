"""The engine over HTTP: OpenAI's and SGLang's protocols, health, metrics.

`build_app` makes the ASGI application over an engine; `run_engine` is a whole process, `serve` the same in a
running event loop.
"""

from radixway.engine.server.app import build_app
from radixway.engine.server.launcher import AddressInUseError, run_engine, serve

__all__ = ["AddressInUseError", "build_app", "run_engine", "serve"]
