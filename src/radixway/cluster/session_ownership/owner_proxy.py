"""Stands before the gateway's application, and passes on what belongs to another gateway."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import time
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from radixway.cluster.session_ownership.ownership_keys import GatewayFleet, OwnedRequest, OwnershipKeys
from radixway.cluster.session_ownership.peer_connections import PeerConnections
from radixway.cluster.session_ownership.signed_hop import HEADER, HopSigner, read_hop_header
from radixway.core.component import Component
from radixway.core.config import Config, SessionPolicyConfig, StickyLeastLoadedPolicyConfig
from radixway.core.http import (
    App,
    ClientDisconnectedError,
    ClientWatch,
    HttpError,
    Message,
    Receive,
    Scope,
    Send,
    ServerStoppingError,
    is_server_stopping,
    read_body,
    replay_body,
    send_error,
)
from radixway.core.http.asgi import FORWARDER
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.pipeline import GatewayError, StreamBrokenError
from radixway.core.telemetry import MetricsRegistry

log = logging.getLogger(__name__)

_EVERY_S = 2.0


class GatewayHeartbeat:
    """Probes one gateway: a frozen or cut-off process keeps its connections, and answers nothing on them.

    Belongs to one event loop. Gateways are probed only while a request waits or the last probe failed.
    """

    def __init__(self, url: str, ask: Callable[[], Awaitable[None]], every_s: float = _EVERY_S) -> None:
        """`ask` returns if the gateway answers, and raises OSError, TimeoutError among them, if not."""
        self._url = url
        self._ask = ask
        self._every_s = every_s
        self._waiting: set[asyncio.Timeout] = set()
        self._asking: asyncio.Task[None] | None = None
        self.silent = False

    @asynccontextmanager
    async def monitored(self) -> AsyncIterator[None]:
        """Run the block while probing the gateway. Raises TimeoutError when it falls silent."""
        if self.silent:
            raise TimeoutError("it is silent")
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(
                self._probe_loop(), name=f"heartbeat of {self._url}"
            )
        async with asyncio.timeout(None) as limit:
            self._waiting.add(limit)
            try:
                yield
            finally:
                self._waiting.discard(limit)

    async def stop_probing(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            await cancel_tasks([self._asking])

    async def _probe_loop(self) -> None:
        while self._waiting or self.silent:
            await asyncio.sleep(self._every_s)
            try:
                await self._ask()
            except OSError as error:
                if not self.silent:
                    log.warning("the gateway %s is silent: %s", self._url, error or type(error).__name__)
                self.silent = True
                now = asyncio.get_running_loop().time()
                while self._waiting:
                    self._waiting.pop().reschedule(now)
            else:
                self.silent = False


_EXPLAIN_S = 5.0
"""Time for another gateway to begin its answer about a journal."""
_PROBE_TIMEOUT_S = 10.0
"""A gateway that does not answer a probe for so long cannot answer others either."""
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"}
)
_OWN_NAME = frozenset({b"host", b"origin"})
"""`Origin` was compared with `Host` here; at a gateway of another name it would be foreign."""


class OwnerUnavailableError(GatewayError):
    """The gateway that owns the session does not answer."""

    status = 503
    code = "gateway_away"
    quotes = False
    retry_after_s = 1
    is_unsent = False
    """True: no connection was made, so that the gateway cannot have seen the request."""


class OwnerProxy(Component):
    """An ASGI application around one. A request is passed on once at most."""

    name = "gateways"

    def __init__(
        self,
        app: App,
        fleet: GatewayFleet,
        ownership_keys: OwnershipKeys,
        signer: HopSigner,
        metrics: MetricsRegistry,
        has_valid_key: Callable[[Scope], bool],
        max_body_bytes: int,
        connections: PeerConnections | None = None,
        counted_as: str = "radixway_passed_on",
    ) -> None:
        """`has_valid_key`: says of a request by its head that its body may be read; else `app` refuses it.

        `connections`: by default TCP. `counted_as`: the name of the metrics of what is passed on.
        """
        self._app = app
        self._fleet = fleet
        self._ownership_keys = ownership_keys
        self._signer = signer
        self._has_valid_key = has_valid_key
        self._max_body_bytes = max_body_bytes
        self._connections = connections or PeerConnections()
        self._heartbeats = {
            url: GatewayHeartbeat(url, partial(self._ping_gateway, url)) for url in fleet.other_gateways
        }
        self._passed_on = metrics.counter(counted_as, "Requests that another gateway answered")
        self._away = metrics.counter(f"{counted_as}_failed", "Requests whose gateway did not answer")

    async def start(self) -> None:
        """Hold connections to the others from now on."""
        self._connections.open()

    async def stop(self) -> None:
        """Let go of the others."""
        await asyncio.gather(*(heartbeat.stop_probing() for heartbeat in self._heartbeats.values()))
        await self._connections.close()

    def reset_heartbeat(self, url: str) -> None:
        """Take the gateway of `url`, which has just started, for one that answers until a probe fails."""
        self._heartbeats[url].silent = False

    def describe(self) -> dict[str, Any]:
        """Return the report for `/health`."""
        return {"self": self._fleet.own, "others": self._fleet.other_gateways}

    def answers_here(self, scope: Scope) -> bool:
        """Return whether the request of `scope`, which is for a declared endpoint, needs no other gateway."""
        return read_hop_header(scope) is None and not self._ownership_keys.may_be_owned(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or FORWARDER in scope:  # Envoy takes a request to its worker from here
            await self._app(scope, receive, send)
            return
        try:
            hop = read_hop_header(scope)
            if hop is not None:
                client = self._signer.verify_hop(scope, hop)
                headers = [header for header in scope["headers"] if header[0] != HEADER]
                scope = {**scope, "client": client, "headers": headers}
                await self._app(scope, receive, send)
            elif self._ownership_keys.may_be_owned(scope):
                await self._route_request(scope, receive, send)
            elif scope["path"].startswith("/explain/"):
                await self._find_journal(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except HttpError as error:
            await send_error(scope, send, error)
        except ClientDisconnectedError:
            pass

    async def _route_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._has_valid_key(scope):
            await self._app(scope, receive, send)
            return
        raw = await read_body(scope, receive, self._max_body_bytes)
        bound = self._ownership_keys.find_owned(scope, raw)
        if bound is None:
            raw = self._ownership_keys.with_generated_name(scope, raw, self._fleet.make_owned_name())
        elif await self._forward_to_owner(bound, scope, raw, receive, send):
            return
        await self._app(scope, replay_body(raw, receive), send)

    async def _forward_to_owner(
        self, bound: OwnedRequest, scope: Scope, raw: bytes, receive: Receive, send: Send
    ) -> bool:
        """Forward to the owner; return False if that is this gateway, or away while any may answer.

        Raises OwnerUnavailableError.
        """
        owner = self._fleet.find_owner(bound.name)
        if owner == self._fleet.own:
            return False
        try:
            await self.forward_request(owner, scope, raw, receive, send)
        except OwnerUnavailableError:
            if bound.anywhere:
                return False
            raise
        return True

    async def forward_request(
        self, owner: str, scope: Scope, raw: bytes, receive: Receive, send: Send
    ) -> None:
        """Have the gateway `owner` answer a request, whose body is `raw`. Raises OwnerUnavailableError."""
        watch = ClientWatch()
        watch.watch(receive)
        try:
            async with self.open_request(owner, scope, raw) as answer:
                self._passed_on().inc()
                await self._relay_answer(answer, owner, scope, send)
        except asyncio.CancelledError:
            if watch.ended_by is None:
                raise
            watch.uncancel()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._away().inc()
            log.warning("the gateway %s does not answer: %s", owner, error or type(error).__name__)
            unavailable = OwnerUnavailableError(f"the gateway {owner}, which keeps this, does not answer")
            unavailable.is_unsent = isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError)
            raise unavailable from None
        finally:
            watch.stop_watching()

    async def _find_journal(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find a journal: it is where its request was, so other gateways are queried."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, collect)
        if messages[0]["status"] == 404:
            for other in self._fleet.other_gateways:
                with suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with (
                        asyncio.timeout(_EXPLAIN_S) as timeout,
                        self.open_request(other, scope, b"") as answer,
                    ):
                        if answer.status != 404:
                            timeout.reschedule(None)
                            await self._relay_answer(answer, other, scope, send)
                            return
        for message in messages:
            await send(message)

    @asynccontextmanager
    async def open_request(self, url: str, scope: Scope, raw: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request in `scope` with the body `raw` to the gateway at `url`; yield its answer.

        Raises aiohttp.ClientError, OSError, TimeoutError.
        """
        dropped = _HOP_BY_HOP if self._connections.same_name else _HOP_BY_HOP | _OWN_NAME
        passed = [(name, value) for name, value in scope["headers"] if name not in dropped]
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in passed]
        headers.append((HEADER.decode(), self._signer.sign_hop(scope)))
        query = scope["query_string"].decode("latin-1")
        target = URL(f"{url}{quote(scope['path'])}{f'?{query}' if query else ''}", encoded=True)
        skipped = ("user-agent", "accept", "accept-encoding", "content-type")
        async with self._heartbeats[url].monitored():
            answer = await self._connections.session_for(url).request(
                scope["method"],
                target,
                data=raw,
                headers=[each for each in headers if each[0] != "content-length"],
                skip_auto_headers=skipped,
                allow_redirects=False,
            )
        async with answer:
            yield answer

    async def _relay_answer(
        self, answer: aiohttp.ClientResponse, owner: str, scope: Scope, send: Send
    ) -> None:
        """Relay the answer; one that breaks off ends with an error event, if its protocol has any."""
        headers = [(name.lower(), value) for name, value in answer.raw_headers]
        headers = [header for header in headers if header[0] not in _HOP_BY_HOP]
        headers.append((b"x-radixway-gateway", owner.encode("latin-1")))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        end = b""
        try:
            async with self._heartbeats[owner].monitored():
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("the gateway %s broke off: %s", owner, error or type(error).__name__)
            if answer.content_type != "text/event-stream":
                return  # the server closes the connection: the answer is shorter than announced
            end = StreamBrokenError(owner, "the gateway that answered is gone").event()
        except asyncio.CancelledError:
            if not is_server_stopping(scope) or answer.content_type != "text/event-stream":
                raise
            end = ServerStoppingError().event()
        await send({"type": "http.response.body", "body": end, "more_body": False})

    async def _ping_gateway(self, url: str) -> None:
        """Probe a gateway; any answer will do. Raises OSError, including TimeoutError."""
        try:
            session = self._connections.session_for(url)
            async with asyncio.timeout(_PROBE_TIMEOUT_S), session.get(f"{url}/ready"):
                pass
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from None


def build_owner_proxy(
    config: Config,
    app: App,
    metrics: MetricsRegistry,
    has_valid_key: Callable[[Scope], bool],
    *,
    records: bool,
) -> OwnerProxy | None:
    """Build the proxy that `scale.gateways` configures, or None. `records`: whether trajectories are
    recorded.

    `has_valid_key`: see `OwnerProxy`."""
    section = config.scale.gateways
    if section is None:
        return None
    return OwnerProxy(
        app,
        GatewayFleet(section.self_url, section.all),
        build_ownership_keys(config, records=records),
        HopSigner(section.key.get_secret_value(), time),
        metrics,
        has_valid_key,
        config.gateway.max_body_bytes,
    )


def build_ownership_keys(config: Config, *, records: bool) -> OwnershipKeys:
    """Build what says where a request belongs. `records`: whether trajectories are recorded."""
    routing = config.routing
    policies = [routing.policy, *routing.model_policies.values()]
    is_bound = any(
        isinstance(policy, SessionPolicyConfig | StickyLeastLoadedPolicyConfig) for policy in policies
    )
    return OwnershipKeys(
        [name.encode("ascii") for name in routing.session.headers], conversations=records or is_bound
    )
