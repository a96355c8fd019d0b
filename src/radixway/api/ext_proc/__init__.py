"""The door for Envoy: an external processor (ext_proc, gRPC) that takes requests down the road of HTTP.

Envoy's frames become the scope, `receive` and `send` of an ASGI application, which is the gateway itself;
only the way to the worker differs: Envoy carries what `RequestDispatcher` found a place for. Imports gRPC.
"""

from radixway.api.ext_proc.server import ExtProcServer, create_ext_proc_server

__all__ = ["ExtProcServer", "create_ext_proc_server"]
