"""An agent's call on its way: from its protocol to `/generate` with token ids, and back."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.api.request_handler import RequestHandler
from radixway.api.sessions.agent_call import AgentCall, AnswerEvents, GuardedAnswer
from radixway.api.sessions.call_grammar import build_call_grammar
from radixway.api.sessions.model_codec import GenerateResponseReader, ModelCodec, worker_refused
from radixway.api.sessions.session_service import SessionService
from radixway.core.chat_images import list_image_urls
from radixway.core.config import ConfigError
from radixway.core.http import BadBodyError, HttpError, ReshapedError, Scope
from radixway.core.pipeline import (
    GENERATE,
    BadRequest,
    Chunks,
    Endpoint,
    Pipeline,
    Reply,
    ReplyForm,
    Request,
    SubjectErasedError,
)
from radixway.core.protocols import (
    AnthropicAdapter,
    ChatAdapter,
    CompletionsAdapter,
    NormalizedRequest,
    ProtocolAdapter,
    ReplyMetadata,
    ResponsesAdapter,
)
from radixway.trajectories.sessions import AgentSession, CallRequest, PendingCall, SessionPrompt

if TYPE_CHECKING:
    from radixway.semantics.guard.answers.guarded_reply import GuardedParts


_OURS = frozenset(
    {
        *("text", "input_ids", "input_embeds", "sampling_params", "rid", "stream", "model", "return_logprob"),
        *("logprob_start_len", "top_logprobs_num", "token_ids_logprob", "return_text_in_logprobs"),
        *("ttft_slo_ms", "max_staleness", "min_weight_version", "session_id", "prompt_token_ids"),
    }
)
"""Fields of `/generate` that clients of another protocol may not set."""
_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


class SessionDispatcher:
    """The pipeline for agents' calls of one protocol."""

    def __init__(
        self,
        wire: ProtocolAdapter,
        service: SessionService,
        pipeline: Pipeline,
        session_header: bytes,
        guard_of: Callable[[Request], GuardedParts | None] = lambda _: None,
    ) -> None:
        """`guard_of`: returns the guard of the answer to a request, if there is one."""
        self._wire = wire
        self._guard_of = guard_of
        self._service = service
        self._pipeline = pipeline
        self._session_header = session_header

    async def __call__(self, request: Request) -> Reply:
        """Send `request`, and return the reply in the agent's protocol. Raises HttpError."""
        ask = self._wire.parse_request(request.raw)
        tenant = None if request.caller.policy is None else request.caller.policy.name
        if request.journal.is_erased:  # its conversation would be kept, as nobody's
            raise SubjectErasedError
        session = await self._service.session_for_call(
            session_id_in_path(request.path), tenant, request.user_or_claimed
        )
        request.journal.session = session.id
        codec = await self._service.codecs.codec_for(session.model or ask.model)
        call = await self._start_call(session, ask, codec, GuardedAnswer(self._guard_of(request)))
        try:
            inner = self._worker_request(request, call)
            request.journal.add(
                "session",
                session=session.id,
                call=call.metadata.id,
                parent=call.turn.parent.id if call.turn.parent is not None else None,
                known=call.turn.begin,
                tokens=call.prompt_tokens,
            )
            reply = await self._pipeline(inner)
            request.routing.metrics_model = inner.routing.metrics_model
            if reply.status != 200:
                raise worker_refused(reply.status, reply.body)
            if reply.chunks is None:
                return await self._convert_reply(call, reply)
        except BaseException:
            session.drop_call(call.turn)
            raise
        events: Chunks = AnswerEvents(call, reply.chunks, reply.worker)
        request.open_streams.append(events)
        return Reply(200, [*_EVENTS, *_session_headers(call)], reply.worker, chunks=events)

    async def _start_call(
        self, session: AgentSession, ask: NormalizedRequest, codec: ModelCodec, passing: GuardedAnswer
    ) -> AgentCall:
        wanted = requested_continuation(session, ask, codec)
        prompt, turn = await begin_turn(self._service, session, wanted, codec)
        call_id = uuid.uuid4().hex
        ids = prompt_token_ids(session, turn)
        head = ReplyMetadata(call_id, ask.model or codec.model, int(time.time()), ids)
        reader = GenerateResponseReader(ask, codec.answer_format(ask, prompt), codec)
        start = ask.extra.get("routed_experts_start_len")
        return AgentCall(
            self._service,
            session,
            turn,
            prompt,
            codec,
            ask,
            self._wire,
            head,
            reader,
            passing,
            start if isinstance(start, int) else 0,
        )

    def _worker_request(self, request: Request, call: AgentCall) -> Request:
        """Return the request for `/generate`; it shares the journal and the open streams."""
        ask = call.request
        sampling = {**call.codec.tokenizer.sampling_defaults, "max_new_tokens": None, **ask.sampling}
        reading = call.codec.answer_format(ask, call.prompt)
        if call.codec.hides_markers(reading):
            sampling["skip_special_tokens"] = False
        if forced := ask.forced_tools:
            several = ask.parallel_tool_calls and ask.tool_choice == "required"
            sampling.pop("json_schema", None)  # of answers that are no calls
            sampling["ebnf"] = build_call_grammar(forced, reading, several=several)
        rid = f"{request.id}-{call.metadata.id}"
        body = {name: value for name, value in ask.extra.items() if name not in _OURS}
        body |= {
            "input_ids": call.metadata.prompt_ids,
            "sampling_params": sampling,
            "return_logprob": True,
            "stream": ask.stream,
            "rid": rid,
        }
        if images := list_image_urls(call.turn.history()):
            body["image_data"] = images
        if ask.top_logprobs:
            body["top_logprobs_num"] = ask.top_logprobs
        name = call.session.id.encode("ascii")
        headers = [header for header in request.headers if header[0] != self._session_header]
        return request.copy(
            endpoint=GENERATE,
            path=GENERATE.path,
            raw=msgspec.json.encode(body),
            model=call.codec.model or None,
            stream=ask.stream,
            rids=(rid,),
            headers=(*headers, (self._session_header, name)),
            _body=None,
        )

    async def _convert_reply(self, call: AgentCall, reply: Reply) -> Reply:
        passing = call.guarded_answer
        try:
            growth = await passing.apply_delta(call.reader.read_whole_reply(reply.body))
            rest, ending = await call.save_answer()
            rest, ending = await passing.apply_delta(rest, last=True), passing.finish_info(ending)
        finally:
            passing.close_guard()
        if not call.request.stream:
            body = self._wire.encode_reply(call.request, call.metadata, passing.answer, ending)
            return Reply(200, [*_JSON, *_session_headers(call)], reply.worker, body)
        writer = self._wire.create_event_writer(call.request, call.metadata)
        events = (
            writer.encode_start()
            + writer.encode_delta(growth)
            + writer.encode_delta(rest)
            + writer.encode_end(ending)
        )
        return Reply(200, [*_EVENTS, *_session_headers(call)], reply.worker, events)


def session_id_in_path(path: str) -> str:
    """Return the session's id in the `path` `/sessions/{id}/…`."""
    return path.split("/", 3)[2]


def requested_continuation(session: AgentSession, ask: NormalizedRequest, codec: ModelCodec) -> CallRequest:
    """Return what `ask` wants in `session`, its earlier messages included. Raises BadBodyError."""
    constraint = next((name for name in ("regex", "ebnf") if name in ask.sampling), None)
    if ask.forced_tools and constraint is not None:
        message = f"{constraint}: excludes a tool_choice that forces a call"
        raise BadBodyError(message, param=constraint)
    if isinstance(ask.prompt, list):
        size = codec.tokenizer.size
        if wrong := next((token for token in ask.prompt if token >= size), None):
            message = f"prompt: holds token id {wrong}, which is outside the vocabulary of {size} tokens"
            raise BadBodyError(message, param="prompt", code="invalid_token_id")
    instructed = bool(ask.body.get("instructions")) and ask.prompt is None
    wanted = CallRequest(
        codec.model,
        ask.messages,
        ask.prompt,
        ask.visible_tools,
        ask.template_arguments,
        ask.continue_final_message,
        instructed,
    )
    if ask.previous_response_id is not None:
        call = session.calls.get(ask.previous_response_id.removeprefix("resp_"))
        if call is None:
            message = f"previous_response_id: this session has no response {ask.previous_response_id[:80]!r}"
            raise BadBodyError(message, param="previous_response_id", code="previous_response_not_found")
        # What instructions an earlier response had does not carry over to the next one.
        earlier = call.history()[1 if call.path()[0].instructed else 0 :]
        own = int(instructed)
        wanted.messages = [*ask.messages[:own], *earlier, *ask.messages[own:]]
        wanted.after = call
    return wanted


async def begin_turn(
    service: SessionService, session: AgentSession, wanted: CallRequest, codec: ModelCodec
) -> tuple[SessionPrompt, PendingCall]:
    """Call `service.begin_turn`; raises BadBodyError for what is wrong with the request."""
    from radixway.core.tokenizer import TemplateError

    try:
        return await service.begin_turn(session, wanted, codec)
    except TemplateError as error:
        raise BadBodyError(str(error), param=error.param, code=error.code) from None
    except ValueError as error:
        raise BadRequest(str(error)) from None


def prompt_token_ids(session: AgentSession, turn: PendingCall) -> list[int]:
    """Return all tokens of the prompt of `turn`."""
    return session.store.token_ids(turn.hold).tolist()


def _session_headers(call: AgentCall) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-radixway-session", call.session.id.encode("ascii")),
        (b"x-radixway-call", call.metadata.id.encode("ascii")),
    ]


_PATH = re.compile(r"/sessions/[^/]+(/.+)")
_WIRES: dict[ReplyForm, ProtocolAdapter] = {
    ReplyForm.CHAT: ChatAdapter(),
    ReplyForm.COMPLETION: CompletionsAdapter(),
    ReplyForm.RESPONSE: ResponsesAdapter(takes_images=True),
    ReplyForm.MESSAGE: AnthropicAdapter(takes_images=True),
}


class SessionRequestHandler(RequestHandler):
    """A request handler whose errors are in its protocol's shape."""

    def __init__(
        self, endpoint: Endpoint, wire: ProtocolAdapter, pipeline: Pipeline, *options: Any, **limits: Any
    ) -> None:
        super().__init__(endpoint, pipeline, *options, **limits)
        self._wire = wire

    def shape_error(self, request: Request, error: HttpError) -> HttpError:
        stream = next((chunks for chunks in request.open_streams if isinstance(chunks, AnswerEvents)), None)
        return ReshapedError(
            error,
            self._wire.encode_error_body(error),
            None if stream is None else stream.encode_failure(error),
        )


class SessionCallRouter:
    """Finds the handler for a path under `/sessions/{id}`."""

    def __init__(
        self, endpoints: Iterable[Endpoint], create: Callable[[Endpoint, ProtocolAdapter], RequestHandler]
    ) -> None:
        """`create` builds the handler of an endpoint. Raises ConfigError if sessions cannot serve one."""
        self._exchanges: dict[str, RequestHandler] = {}
        for endpoint in endpoints:
            wire = _WIRES.get(endpoint.reply_form)
            if wire is None:
                raise ConfigError(
                    f"endpoint {endpoint.name}: sessions cannot reply as {endpoint.reply_form.value}"
                )
            exchange = create(endpoint, wire)
            for path in endpoint.paths_in_session:
                self._exchanges[path] = exchange

    def find_handler(self, scope: Scope) -> RequestHandler | None:
        """Return the handler, if the path of `scope` is an agent's."""
        path: str = scope["path"]
        if not path.startswith("/sessions/"):
            return None
        found = _PATH.fullmatch(path)
        return None if found is None else self._exchanges.get(found[1])
