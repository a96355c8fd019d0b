"""The services that every gRPC server has: health (`grpc.health.v1`) and reflection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
    HealthListResponse,
)
from grpc_reflection.v1alpha.reflection import ReflectionServicer
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from radixway.api.ext_proc.grpc_server import GrpcCall, GrpcStatus, OpenCall
from radixway.core.http2 import Header

HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


class _EachMessage:
    """Answers each message of a call by itself; ends with its client."""

    def __init__(self, call: GrpcCall, kind: type[Message], answer: Callable[[Message], Message]) -> None:
        self._call = call
        self._kind = kind
        self._answer = answer

    def on_message(self, message: bytes) -> None:
        try:
            request = self._kind.FromString(message)
        except DecodeError:
            self._call.finish(GrpcStatus.INTERNAL, "this is not such a message")
            return
        try:
            self._call.send_message(self._answer(request).SerializeToString())
        except LookupError as error:
            self._call.finish(GrpcStatus.NOT_FOUND, str(error.args[0]))

    def on_half_close(self) -> None:
        self._call.finish()

    def on_cancel(self) -> None:
        pass


class HealthService:
    """Says whether services answer, and tells those who watch when that changes."""

    def __init__(self, services: Collection[str]) -> None:
        """`services`: all that it knows; the empty name, of the whole server, it knows besides."""
        self._services = {"", *services}
        self._is_serving = True
        self._watches: dict[GrpcCall, str] = {}

    def methods(self) -> Mapping[bytes, OpenCall]:
        """Return its methods by path."""

        def check(call: GrpcCall, _: list[Header]) -> _EachMessage:
            return _EachMessage(call, HealthCheckRequest, self._check)

        def list_all(call: GrpcCall, _: list[Header]) -> _EachMessage:
            return _EachMessage(call, HealthListRequest, lambda _: self._list())

        return {
            f"/{HEALTH}/Check".encode(): check,
            f"/{HEALTH}/List".encode(): list_all,
            f"/{HEALTH}/Watch".encode(): lambda call, _: _HealthWatch(call, self),
        }

    def stop_serving(self) -> None:
        """Say of every service that it does not answer, and end the calls that watch."""
        self._is_serving = False
        watches, self._watches = self._watches, {}
        for call, service in watches.items():
            call.send_message(self.status_of(service).SerializeToString())
            call.finish()

    def status_of(self, service: str) -> HealthCheckResponse:
        """Return what those who watch `service` are told."""
        if service not in self._services:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        known = HealthCheckResponse.SERVING if self._is_serving else HealthCheckResponse.NOT_SERVING
        return HealthCheckResponse(status=known)

    def watch_service(self, call: GrpcCall, service: str) -> None:
        """Tell `call` of `service`, now and when it changes."""
        self._watches[call] = service
        call.send_message(self.status_of(service).SerializeToString())

    def forget_watch(self, call: GrpcCall) -> None:
        """Tell `call` no more."""
        self._watches.pop(call, None)

    def _check(self, request: Message) -> HealthCheckResponse:
        assert isinstance(request, HealthCheckRequest)
        if request.service not in self._services:
            raise LookupError(f"there is no service {request.service}")
        return self.status_of(request.service)

    def _list(self) -> HealthListResponse:
        return HealthListResponse(statuses={name: self.status_of(name) for name in self._services})


class _HealthWatch:
    """A call that watches one service until its client leaves."""

    def __init__(self, call: GrpcCall, health: HealthService) -> None:
        self._call = call
        self._health = health

    def on_message(self, message: bytes) -> None:
        try:
            request = HealthCheckRequest.FromString(message)
        except DecodeError:
            self._health.forget_watch(self._call)
            self._call.finish(GrpcStatus.INTERNAL, "this is not such a message")
        else:
            self._health.watch_service(self._call, request.service)

    def on_half_close(self) -> None:
        pass

    def on_cancel(self) -> None:
        self._health.forget_watch(self._call)


def reflection_methods(services: Collection[str]) -> Mapping[bytes, OpenCall]:
    """Return the method of gRPC's own reflection servicer, which describes `services`, by its path."""
    servicer = ReflectionServicer(services)

    def describe(call: GrpcCall, _: list[Header]) -> _EachMessage:
        return _EachMessage(
            call,
            ServerReflectionRequest,
            lambda request: next(servicer.ServerReflectionInfo(iter([request]), None)),
        )

    return {f"/{REFLECTION}/ServerReflectionInfo".encode(): describe}
