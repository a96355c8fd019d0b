"""Envoy's external processor (ext_proc, gRPC), which takes requests through the same pipeline as HTTP."""

from radixway.api.ext_proc.server import ExtProcServer, create_ext_proc_server

__all__ = ["ExtProcServer", "create_ext_proc_server"]
