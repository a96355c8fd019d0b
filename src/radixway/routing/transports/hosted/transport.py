"""Sends requests to hosted models over `HttpTransport`, and makes chat completions of what comes back."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

import msgspec

from radixway.core.config import CredentialMissingError, HostedWorkerSettings
from radixway.core.pipeline import (
    CHAT_COMPLETIONS,
    BadRequest,
    Endpoint,
    ForbiddenError,
    Reply,
    ReplyForm,
    Request,
    StreamBrokenError,
    WorkerFailedError,
)
from radixway.core.pipeline.endpoints import COMPLETIONS
from radixway.routing import Worker, WorkerLease, WorkerRegistry, WorkerState
from radixway.routing.transports.hosted.anthropic_api import AnthropicApi
from radixway.routing.transports.hosted.base import (
    AnswerReader,
    Headers,
    ProviderApi,
    ProviderCall,
    ProviderRefusal,
    StreamRefusedError,
    decode_answer,
    find_error_status,
    find_header,
)
from radixway.routing.transports.hosted.bedrock_api import BedrockApi
from radixway.routing.transports.hosted.chat_events import (
    UNREADABLE,
    CompletionForm,
    ConvertedEvents,
    PassedEvents,
    token_usage,
    wants_usage,
)
from radixway.routing.transports.hosted.gemini_api import GeminiApi
from radixway.routing.transports.hosted.openai_api import AzureApi, CompatibleApi, OpenAIApi
from radixway.routing.transports.http_transport import HttpTransport

log = logging.getLogger(__name__)

PROVIDER_APIS: Mapping[str, ProviderApi] = {
    "openai": OpenAIApi(),
    "openai-compatible": CompatibleApi(),
    "azure": AzureApi(),
    "anthropic": AnthropicApi(),
    "gemini": GeminiApi(),
    "bedrock": BedrockApi(),
}
REFUSED_KEY_PAUSE_S = 60.0
"""How long a provider that refused its key is left alone; a request then tries it again."""
_USUAL_PAUSE_S = 1.0
"""How long one with too many requests is left alone where it does not say."""

_CONVERTED = replace(CHAT_COMPLETIONS, name="hosted", reply_form=ReplyForm.OPAQUE)
"""How a converted call is read: its reader knows where it ends, the transport does not."""
_JSON = (b"content-type", b"application/json")
_KEPT = frozenset({b"content-type", b"retry-after", b"retry-after-ms"})
"""Headers of providers that reach clients; others name the account."""


class HostedForbiddenError(ForbiddenError):
    """The guard lets no personal data leave to hosted models."""

    code = "hosted_forbidden"

    def __init__(self) -> None:
        super().__init__(
            "the request has personal data, which the guard does not let leave to a hosted model, and no own "
            "worker can answer it now"
        )


class HostedTransport:
    """Sends requests to hosted workers, and notes what their refusals say of them."""

    def __init__(
        self, http: HttpTransport, registry: WorkerRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._http = http
        self._registry = registry
        self._clock = clock

    async def send_request(self, request: Request, worker: Worker, lease: WorkerLease) -> Reply:
        """Ask the hosted `worker` and return its answer, as `HttpTransport.send_request`.

        Raises WorkerFailedError, also for refusals that another worker may not have; BadRequest for what the
        provider's API cannot say; HostedForbiddenError.
        """
        settings = worker.hosted
        assert settings is not None
        if request.clearance is not None and not request.clearance.may_leave:
            raise HostedForbiddenError  # whoever chose the worker
        api = PROVIDER_APIS[settings.provider]
        endpoint = request.endpoint
        passes = endpoint.path in api.passed_paths
        if not passes and endpoint.path not in api.converted_paths:
            raise BadRequest(f"{settings.provider} has no {endpoint.path}", param="model", code="unsupported")
        tells_usage = wants_usage(request)
        named = request.routing.resolved_model or request.model or ""
        model = settings.names.get(named, named)
        call, inner = self._build_call(request, worker, api, model)
        buffer = None
        if not passes:
            inner.endpoint = _CONVERTED
            buffer = api.create_event_buffer() if request.stream else None
        try:
            reply = await self._http.send_request(inner, worker, lease, buffer=buffer)
        except WorkerFailedError as failure:
            if failure.reply is None:
                raise
            reply = failure.reply
        content_type = find_header(reply.headers, b"content-type") or b""
        if passes and reply.chunks is not None and content_type.startswith(_JSON[1]):
            await _read_whole(worker, reply)
        if (refusal := self._find_refusal(worker, api, reply, passes=passes)) is not None:
            return refusal
        if call.read_answer is not None:
            return self._convert_answer(worker, call.read_answer, reply)
        if not passes:
            return await self._convert_chat_reply(request, worker, api, reply, model)
        reply.headers = [header for header in reply.headers if header[0] in _KEPT]
        if reply.chunks is not None and endpoint in (CHAT_COMPLETIONS, COMPLETIONS):
            reply.chunks = PassedEvents(reply.chunks, api.create_reader(), tells_usage=tells_usage)
        return reply

    def _build_call(
        self, request: Request, worker: Worker, api: ProviderApi, model: str
    ) -> tuple[ProviderCall, Request]:
        """Return the call, and the request that makes it. Raises BadRequest, WorkerFailedError: no key."""
        assert worker.hosted is not None
        _, mark, query = request.path.partition("?")
        inner = request.copy(path=f"{request.endpoint.path}{mark}{query}")
        try:
            call = api.build_call(inner, worker.hosted, model, worker.hosted.read_key())
        except CredentialMissingError as error:
            raise self._refuse(worker, 503, ProviderRefusal(str(error), refuses_key=True)) from None
        inner.path, inner.raw, inner.headers = call.path, call.body, tuple(call.headers)
        inner.content_type = call.content_type
        return call, inner

    def _find_refusal(self, worker: Worker, api: ProviderApi, reply: Reply, *, passes: bool) -> Reply | None:
        """Return the refusal that `reply` is, for the client; None: it is an answer.

        `passes`: the client speaks the provider's API. Raises WorkerFailedError.
        """
        assert worker.hosted is not None
        status = reply.status
        if status == 200 and reply.chunks is None:
            status = find_error_status(reply.body) or 200
        if status == 200:
            return None
        if status < 400:
            raise WorkerFailedError(worker.name, "truncated", f"it answered {status}, which is no answer")
        body = worker.hosted.hide_key(reply.body.decode("utf-8", "replace")).encode()
        refusal = api.explain_error(status, body, reply.headers)
        if passes and isinstance(decode_answer(body), dict):
            refusal = replace(refusal, body=body)
        return self._tell_refusal(worker, status, refusal)

    def _convert_answer(self, worker: Worker, read_answer: AnswerReader, reply: Reply) -> Reply:
        """Return the client's answer that `reply` comes to. Raises WorkerFailedError."""
        try:
            body = msgspec.json.encode(read_answer(msgspec.json.decode(reply.body), reply.headers))
        except UNREADABLE as error:
            raise _unreadable_error(worker, error) from None
        return Reply(200, [_JSON], reply.worker, body)

    async def _convert_chat_reply(
        self, request: Request, worker: Worker, api: ProviderApi, reply: Reply, model: str
    ) -> Reply:
        """Make `reply` a chat completion. Raises WorkerFailedError."""
        reader = api.create_reader()
        form = CompletionForm(request, reader, model)
        if reply.chunks is not None:
            assert worker.hosted is not None
            events = ConvertedEvents(reply.chunks, worker.name, reader, form, worker.hosted.hide_key)
            try:
                await events.read_beginning()
            except StreamRefusedError as error:
                await events.aclose()
                raise self._refuse(worker, error.status, error.refusal) from None
            except StreamBrokenError as error:
                await events.aclose()
                raise WorkerFailedError(worker.name, "truncated", error.reason) from None
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
            return Reply(200, headers, reply.worker, chunks=events)
        try:
            body = form.encode_reply(msgspec.json.decode(reply.body))
        except StreamRefusedError as error:
            return self._tell_refusal(worker, error.status, error.refusal)
        except UNREADABLE as error:
            raise _unreadable_error(worker, error) from None
        return Reply(200, [_JSON], reply.worker, body, used=token_usage(reader))

    def _tell_refusal(self, worker: Worker, status: int, refusal: ProviderRefusal) -> Reply:
        """Return a refusal that is the client's. Raises WorkerFailedError for others."""
        failure = self._refuse(worker, status, refusal)
        if refusal.refuses_key or status in (408, 429) or status >= 500:
            raise failure
        assert failure.reply is not None
        return failure.reply

    def _refuse(self, worker: Worker, status: int, refusal: ProviderRefusal) -> WorkerFailedError:
        """Note what `refusal` says of `worker`, and build its failure, with the reply for the client."""
        assert worker.hosted is not None
        refusal = replace(refusal, message=worker.hosted.hide_key(refusal.message))
        headers: Headers = [_JSON]
        detail = f"it answered {status}: {refusal.message}"
        if refusal.refuses_key:  # what is wrong with the key, and of which account, is the operator's
            self._note_refused_key(worker, refusal.message)
            status, message = 503, "the provider does not accept the gateway's key"
            refusal = ProviderRefusal(message, "provider_misconfigured")
        elif status == 429 or (status in (503, 529) and refusal.retry_after_s is not None):
            pause_s = refusal.retry_after_s or _USUAL_PAUSE_S
            worker.limited_until = max(worker.limited_until, self._clock() + pause_s)
            headers.append((b"retry-after", b"%d" % max(1, ceil(pause_s))))
        error = {
            "message": refusal.message,
            "type": refusal.type,
            "param": refusal.param,
            "code": refusal.code or refusal.type,
        }
        # `type` is for clients of Anthropic's messages; those of OpenAI's API pass over it.
        body = refusal.body or msgspec.json.encode({"type": "error", "error": error})
        reply = Reply(status, headers, worker.name, body)
        return WorkerFailedError(worker.name, "unavailable", detail, reply=reply)

    def _note_refused_key(self, worker: Worker, reason: str) -> None:
        """Take `worker` out for a while: no request that it gets can be answered."""
        worker.refused_until = self._clock() + REFUSED_KEY_PAUSE_S
        worker.last_error, worker.error_kind = f"the provider refuses its key ({reason})", "misconfigured"
        if worker.state is WorkerState.READY:
            log.warning("worker %s is misconfigured: %s", worker.name, worker.last_error)
            self._registry.set_state(worker, WorkerState.DOWN)


async def _read_whole(worker: Worker, reply: Reply) -> None:
    """Read the body of a `reply` that is no stream, though one was asked for. Raises WorkerFailedError."""
    assert reply.chunks is not None
    try:
        reply.body = b"".join([chunk async for chunk in reply.chunks])
    except StreamBrokenError as error:
        raise WorkerFailedError(worker.name, "truncated", error.reason) from None
    reply.chunks = None


def _unreadable_error(worker: Worker, error: Exception) -> WorkerFailedError:
    """Build the failure for an answer that is not what the provider's API says."""
    return WorkerFailedError(worker.name, "truncated", f"its answer cannot be read ({type(error).__name__})")


def may_serve(worker: Worker, endpoint: Endpoint) -> bool:
    """Return whether the hosted `worker` can answer requests to `endpoint`."""
    return worker.hosted is None or endpoint.path in list_hosted_paths(worker.hosted)


def list_hosted_paths(settings: HostedWorkerSettings) -> frozenset[str]:
    """Return the paths of endpoints that a hosted worker can answer."""
    api = PROVIDER_APIS[settings.provider]
    return api.passed_paths | api.converted_paths
