"""When a request for a surface is passed on as it is, and when it is answered by a chat completion.

It is passed on where a worker of its model says that it has the surface, unless something that is configured
must read or change what only chat completions show: a guard, whose verdicts are about answers too; the
semantic cache; a model's name that leaves the choice to the gateway; workers that only decode, whose prompts
others prefill. A response that is to be kept is kept by the gateway, wherever it keeps any.
"""

from collections.abc import Callable

import msgspec

from radixway.api.authorization import PathAuthorization
from radixway.api.request_handler import RequestHandler
from radixway.core.http import Receive, Scope, read_body, replay_body
from radixway.core.pipeline import GatewayError, TenantPolicy
from radixway.core.pipeline.endpoints import COUNT_RESPONSE_TOKENS, RESPONSES
from radixway.routing import DefaultModelResolver, WorkerRegistry
from radixway.routing.transports import WorkerSurfaceReader

_CHAT_KEY = "rxw_"
"""Beginning of the keys of chats' users (`chat.api_keys.PREFIX`, whose module needs a database)."""


class NativeSurfaces:
    """Says whether requests are passed on as they are."""

    def __init__(
        self,
        registry: WorkerRegistry,
        surfaces: WorkerSurfaceReader,
        is_auto: Callable[[str], bool],
        *,
        reads_answers: bool,
    ) -> None:
        """`is_auto`: whether a name leaves the choice to the gateway. `reads_answers`: a guard or a cache
        reads answers, as chat completions."""
        self._registry = registry
        self._surfaces = surfaces
        self._is_auto = is_auto
        self._reads_answers = reads_answers

    async def may_pass(
        self, path: str, model: str | None, tenancy: TenantPolicy | None, pinned: str | None = None
    ) -> bool:
        """Return whether a request at `path` for `model` is passed on to a worker that has that path.

        `tenancy`: whose workers may answer. `pinned`: the name or URL of the only worker that may.
        """
        if self._reads_answers or (model is not None and self._is_auto(model)):
            return False
        if self._registry.has_decode_only():
            return False
        if tenancy is not None and model is not None and not tenancy.allows_model(model):
            return False
        offering = await self._surfaces.find_offering(model, path)
        if all(worker.hosted is not None for worker in offering) and any(
            worker.hosted is None for worker in self._registry.candidates(model)
        ):
            return False  # own workers come first, and they answer by a chat completion
        if pinned is not None:
            return any(pinned in (worker.name, worker.url) for worker in offering)
        return any(tenancy is None or tenancy.may_use_worker(each.pools, each.models) for each in offering)


class _ResponseTraits(msgspec.Struct):
    """The fields that decide where a response is answered; what is wrong with others is found there."""

    model: str | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: msgspec.Raw = msgspec.Raw(b"null")
    background: bool | None = None

    def goes_on(self) -> bool:
        """Return whether the response goes on from one that is kept."""
        return self.previous_response_id is not None or bytes(self.conversation) != b"null"

    def is_kept(self) -> bool:
        """Return whether the response is kept, goes on from one that is, or is asked for later."""
        return self.store is not False or self.goes_on() or self.background is True


_traits = msgspec.json.Decoder(_ResponseTraits)


class ResponseRouter:
    """Finds out which requests for a response go to workers as they are, and which are counted by them."""

    def __init__(
        self,
        handler: RequestHandler,
        token_counts: RequestHandler,
        native: NativeSurfaces,
        models: DefaultModelResolver,
        authorization: PathAuthorization,
        max_body_bytes: int,
        *,
        has_chats: bool,
        screens: bool,
    ) -> None:
        """`handler` passes them on, `token_counts` counts their tokens. `has_chats`: responses are kept here.
        `screens`: chats' questions are screened for safety."""
        self._handler = handler
        self._token_counts = token_counts
        self._native = native
        self._models = models
        self._authorization = authorization
        self._max_body_bytes = max_body_bytes
        self._has_chats = has_chats
        self._screens = screens

    async def find_handler(self, scope: Scope, receive: Receive) -> tuple[RequestHandler | None, Receive]:
        """Return the handler of the request in `scope`, None for one that is not passed on, and what gives
        its body again. Raises HttpError, ClientDisconnectedError."""
        counts = scope["path"] == COUNT_RESPONSE_TOKENS.path
        is_call = (counts or scope["path"] == RESPONSES.path) and scope["method"] == "POST"
        if is_call and counts and not self._has_chats:
            return self._token_counts, receive
        if not is_call or self._screens or not self._authorization.has_valid_key(scope):
            return None, receive
        if self._has_chats and _brings_chat_credentials(scope):
            return None, receive
        raw = await read_body(scope, receive, self._max_body_bytes)
        receive = replay_body(raw, receive)
        try:
            traits = _traits.decode(raw)
            tenancy = self._authorization.callers.tenant_policy_of(scope)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, GatewayError):
            return None, receive
        if counts:
            return (None if traits.goes_on() else self._token_counts), receive
        if self._has_chats and traits.is_kept():
            return None, receive
        model = traits.model
        if model is not None:
            model = self._models.resolve_model(model, tenancy) or model
        is_native = await self._native.may_pass(RESPONSES.path, model, tenancy)
        return (self._handler if is_native else None), receive


def _brings_chat_credentials(scope: Scope) -> bool:
    """Return whether `scope` has the key or the token (with four dots) of a user of chats."""
    for name, value in scope["headers"]:
        if name == b"trustedclient":
            return True
        if name in (b"authorization", b"x-api-key"):
            key = value.decode("latin-1").rpartition(" ")[2]
            if key.startswith(_CHAT_KEY) or key.count(".") == 4:
                return True
    return False
