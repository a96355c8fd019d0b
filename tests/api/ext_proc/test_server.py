"""The gRPC server itself: health, reflection, certificates, and how it opens and closes."""

import asyncio
import json
import sys

import pytest

pytest.importorskip("grpc")

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import HttpBody, ProcessingRequest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from radixway.core.config import ConfigError, load_config
from radixway.core.http import CannotListenError
from radixway.gateway.app import Gateway
from support.certificates import certificate
from support.envoy_frames import BUFFERED, headers_message, immediate, tell
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

DOOR = {"enabled": True, "port": 0}
SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
HEAD = [(":method", "POST"), (":path", "/v1/chat/completions")]
MODELS = headers_message([(":method", "GET"), (":path", "/v1/models")], end_of_stream=True)


async def test_health_and_reflection_are_there():
    async with running_gateway(ext_proc=DOOR) as gateway:
        async with grpc.aio.insecure_channel(gateway.gateway.ext_proc_server.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("", SERVICE):
                said = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert said.status == health_pb2.HealthCheckResponse.SERVING
            listing = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await listing.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            services = (await listing.read()).list_services_response.service
            assert SERVICE in {service.name for service in services}


async def test_only_an_envoy_with_a_certificate_of_the_authority_is_heard(tmp_path):
    ca, _, authority = certificate("authority", tmp_path)
    cert, key, _ = certificate("gateway", tmp_path, authority)
    mine, my_key, _ = certificate("envoy", tmp_path, authority)
    tls = {"cert": str(cert), "key": str(key), "client_ca": str(ca)}
    async with running_gateway(ext_proc=DOOR | {"tls": tls}) as gateway:
        address = gateway.gateway.ext_proc_server.address
        known = grpc.ssl_channel_credentials(ca.read_bytes(), my_key.read_bytes(), mine.read_bytes())
        async with grpc.aio.secure_channel(address, known) as channel:
            call = external_processor_pb2_grpc.ExternalProcessorStub(channel).Process()
            assert immediate(await tell(call, request_headers=MODELS)).status == 200
        for stranger in (
            grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca.read_bytes())),
            grpc.aio.insecure_channel(address),
        ):
            async with stranger as channel:
                call = external_processor_pb2_grpc.ExternalProcessorStub(channel).Process()
                with pytest.raises((grpc.aio.AioRpcError, AssertionError)):
                    await tell(call, request_headers=MODELS)
                assert await call.code() is grpc.StatusCode.UNAVAILABLE


async def test_what_is_in_hand_ends_before_the_gateway_does():
    go_on = asyncio.Event()

    async with scripted_worker() as worker, running_gateway(worker.url, ext_proc=DOOR) as gateway:
        door = gateway.gateway.ext_proc_server
        async with grpc.aio.insecure_channel(door.address) as channel:
            call = external_processor_pb2_grpc.ExternalProcessorStub(channel).Process()
            head = ProcessingRequest(request_headers=headers_message(HEAD), protocol_config=BUFFERED)
            await tell(call, head)
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
            await tell(call, request_body=HttpBody(body=body, end_of_stream=True))
            stopping = asyncio.create_task(door.stop())
            stopping.add_done_callback(lambda _: go_on.set())
            said = await tell(call, response_headers=headers_message([(":status", "200")]))
            assert said.HasField("response_headers") and not go_on.is_set()
            await tell(call, response_body=HttpBody(body=b"{}", end_of_stream=True))
            await call.done_writing()
            await stopping
            assert gateway.in_flight() == 0


async def test_without_its_packages_it_says_which(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("radixway.api.ext_proc", "envoy."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "envoy", None)
    with pytest.raises(ConfigError, match=r"ext_proc needs radixway\[envoy\]"):
        async with Gateway(load_config(overrides={"ext_proc": DOOR})).running():
            pass


async def test_a_port_that_is_taken_and_files_that_are_missing_are_told_in_words(tmp_path):
    async with running_gateway(ext_proc=DOOR) as gateway:
        taken = DOOR | {"port": gateway.gateway.ext_proc_server.port}
        with pytest.raises(CannotListenError, match=rf"cannot listen on 127.0.0.1:{taken['port']}: "):
            async with Gateway(load_config(overrides={"ext_proc": taken})).running():
                pass
    missing = DOOR | {"tls": {"cert": str(tmp_path / "none.pem"), "key": str(tmp_path / "none.key")}}
    with pytest.raises(ConfigError, match=r"ext_proc.tls: .*none.* No such file"):
        async with Gateway(load_config(overrides={"ext_proc": missing})).running():
            pass
    small = DOOR | {"max_message_bytes": 2**20}
    with pytest.raises(ConfigError, match="ext_proc.max_message_bytes"):
        async with Gateway(load_config(overrides={"ext_proc": small})).running():
            pass
