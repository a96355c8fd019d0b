"""An agent's call on its way: from its protocol to `/generate` with token ids, and back."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.pipeline import GENERATE, BadRequest, Chunks, GatewayError, Pipeline, Reply, Request
from radixway.surfaces.agents.answer_events import AnswerEvents
from radixway.surfaces.agents.guarding import Passing
from radixway.surfaces.agents.heard import Heard, refused
from radixway.surfaces.agents.keeper import SessionKeeper
from radixway.surfaces.agents.speaking import Speaking
from radixway.surfaces.wires import Ask, Ending, Growth, Head, Wire
from radixway.trajectories.sessions import Prompt, Session, Turn, Wanted
from radixway.trajectories.sessions.prompting import merged
from radixway.web import BadBody

if TYPE_CHECKING:
    from radixway.guard.answers.parts import GuardedParts

log = logging.getLogger(__name__)

_OURS = frozenset(
    {
        *("text", "input_ids", "input_embeds", "sampling_params", "rid", "stream", "model", "return_logprob"),
        *("logprob_start_len", "top_logprobs_num", "token_ids_logprob", "return_text_in_logprobs"),
        *("ttft_slo_ms", "max_staleness", "min_weight_version", "session_id", "prompt_token_ids"),
    }
)
"""Fields of `/generate` that a client of another protocol has no say in, and the gateway's own."""
_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


@dataclass(slots=True, eq=False)
class AgentCall:
    """One call: what is known of it from its prompt on, and how it ends."""

    keeper: SessionKeeper
    session: Session
    turn: Turn
    prompt: Prompt
    speaking: Speaking
    ask: Ask
    wire: Wire
    head: Head
    heard: Heard
    passing: Passing
    experts_start: int = 0
    over: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Tokens that the worker is given."""
        return self.turn.sampled_at

    async def keep(self) -> tuple[Growth, Ending]:
        """The answer has ended, or broken off: it becomes a call of the session.

        What was held back of it is returned, and how it ended. Raises Refused where the worker does not say
        what it sampled, SessionLimit, ArchiveBroken.
        """
        self.over = True
        try:
            sampled = self.heard.sampled()
        except BaseException:
            self.session.drop(self.turn)
            raise
        rest = self.heard.rest()
        await self.keeper.end(
            self.session,
            self.turn,
            self.head.id,
            sampled,
            self.speaking,
            answer=self._message(),
            finish=self.heard.finish,
            stop=self.heard.stop,
            wire=self.wire.name,
            experts_start=self.experts_start,
        )
        return rest, self.heard.ending(self.prompt_tokens, sampled)

    async def break_off(self) -> None:
        """Nobody waits any more: what was sampled is kept, as an unfinished call. May be called again."""
        if self.over:
            return
        try:
            if self.heard.begun and self.heard.sampled().ids:
                await self.keep()
        except GatewayError as error:
            log.warning("an unfinished call of session %s is lost: %s", self.session.id, error.code)
        finally:
            self.over = True
            self.session.drop(self.turn)

    def _message(self) -> dict[str, Any]:
        message = self.heard.answer.message()
        if self.ask.prompt is not None:
            return {"role": "completion", "content": self.heard.answer.content}
        if self.prompt.resumes and self.prompt.parent is not None:
            return merged(self.prompt.parent.answer, message)
        return message if self.prompt.prefix is None else merged(self.prompt.prefix, message)


class AgentRoad:
    """What stands in the place of a pipeline for calls of one protocol."""

    def __init__(
        self,
        wire: Wire,
        keeper: SessionKeeper,
        pipeline: Pipeline,
        session_header: bytes,
        guard_of: Callable[[Request], GuardedParts | None] = lambda _: None,
    ) -> None:
        """`guard_of`: who reads the answer to a request, if anybody is to."""
        self._wire = wire
        self._guard_of = guard_of
        self._keeper = keeper
        self._pipeline = pipeline
        self._session_header = session_header

    async def __call__(self, request: Request) -> Reply:
        """The reply in the agent's protocol. Raises HttpError."""
        ask = self._wire.read(request.raw)
        tenant = None if request.tenancy is None else request.tenancy.name
        session = await self._keeper.for_call(session_of(request.path), tenant, request.asker)
        request.journal.session = session.id
        speaking = await self._keeper.speaking(session.model or ask.model)
        call = await self._begin(session, ask, speaking, Passing(self._guard_of(request)))
        try:
            inner = self._to_worker(request, call)
            request.journal.add(
                "session",
                session=session.id,
                call=call.head.id,
                parent=call.turn.parent.id if call.turn.parent is not None else None,
                known=call.turn.begin,
                tokens=call.prompt_tokens,
            )
            reply = await self._pipeline(inner)
            request.known_model = inner.known_model
            if reply.status != 200:
                raise refused(reply.status, reply.body)
            if reply.chunks is None:
                return await self._whole(call, reply)
        except BaseException:
            session.drop(call.turn)
            raise
        events: Chunks = AnswerEvents(call, reply.chunks, reply.worker)
        request.opened.append(events)
        return Reply(200, [*_EVENTS, *_names(call)], reply.worker, chunks=events)

    async def _begin(self, session: Session, ask: Ask, speaking: Speaking, passing: Passing) -> AgentCall:
        wanted = wanted_of(session, ask, speaking)
        prompt, turn = await begin(self._keeper, session, wanted, speaking)
        call_id = uuid.uuid4().hex
        ids = prompt_ids(session, turn)
        head = Head(call_id, ask.model or speaking.model, int(time.time()), ids)
        heard = Heard(ask, speaking.reading(ask, prompt), speaking)
        start = ask.extra.get("routed_experts_start_len")
        return AgentCall(
            self._keeper,
            session,
            turn,
            prompt,
            speaking,
            ask,
            self._wire,
            head,
            heard,
            passing,
            start if isinstance(start, int) else 0,
        )

    def _to_worker(self, request: Request, call: AgentCall) -> Request:
        """The same request for `/generate`: it shares the journal, and what has to be closed."""
        ask = call.ask
        sampling = {"max_new_tokens": None, **ask.sampling}
        if call.speaking.hides(call.speaking.reading(ask, call.prompt)):
            sampling["skip_special_tokens"] = False
        body = {name: value for name, value in ask.extra.items() if name not in _OURS}
        body |= {
            "input_ids": call.head.prompt_ids,
            "sampling_params": sampling,
            "return_logprob": True,
            "stream": ask.stream,
            "rid": f"{request.id}-{call.head.id}",
        }
        if ask.top_logprobs:
            body["top_logprobs_num"] = ask.top_logprobs
        name = call.session.id.encode("ascii")
        headers = [header for header in request.headers if header[0] != self._session_header]
        return replace(
            request,
            endpoint=GENERATE,
            path=GENERATE.path,
            raw=msgspec.json.encode(body),
            model=call.speaking.model or None,
            stream=ask.stream,
            headers=(*headers, (self._session_header, name)),
            _body=None,
        )

    async def _whole(self, call: AgentCall, reply: Reply) -> Reply:
        passing = call.passing
        try:
            growth = await passing.grow(call.heard.hear_whole(reply.body))
            rest, ending = await call.keep()
            rest, ending = await passing.grow(rest, last=True), passing.ending(ending)
        finally:
            passing.close()
        if not call.ask.stream:
            body = self._wire.whole(call.ask, call.head, passing.answer, ending)
            return Reply(200, [*_JSON, *_names(call)], reply.worker, body)
        writer = self._wire.events(call.ask, call.head)
        events = writer.begin() + writer.grow(growth) + writer.grow(rest) + writer.end(ending)
        return Reply(200, [*_EVENTS, *_names(call)], reply.worker, events)


def session_of(path: str) -> str:
    """The session's id in `/sessions/{id}/…`."""
    return path.split("/", 3)[2]


def wanted_of(session: Session, ask: Ask, speaking: Speaking) -> Wanted:
    """What a request wants, its earlier messages included. Raises BadBody."""
    if isinstance(ask.tool_choice, dict) or ask.tool_choice == "required":
        message = "tool_choice: a call cannot be forced in a session: give auto, or none"
        raise BadBody(message, param="tool_choice", code="unsupported")
    if isinstance(ask.prompt, list):
        size = speaking.tokenizer.size
        if wrong := next((token for token in ask.prompt if token >= size), None):
            message = f"prompt: holds token id {wrong}, which is outside the vocabulary of {size} tokens"
            raise BadBody(message, param="prompt", code="invalid_token_id")
    instructed = bool(ask.body.get("instructions")) and ask.prompt is None
    wanted = Wanted(
        speaking.model,
        ask.messages,
        ask.prompt,
        ask.shown_tools,
        ask.template_arguments,
        ask.continue_final_message,
        instructed,
    )
    if ask.previous_response_id is not None:
        call = session.calls.get(ask.previous_response_id.removeprefix("resp_"))
        if call is None:
            message = f"previous_response_id: this session has no response {ask.previous_response_id[:80]!r}"
            raise BadBody(message, param="previous_response_id", code="previous_response_not_found")
        # What instructions an earlier response had does not carry over to the next one.
        earlier = call.history()[1 if call.path()[0].instructed else 0 :]
        own = int(instructed)
        wanted.messages = [*ask.messages[:own], *earlier, *ask.messages[own:]]
        wanted.after = call
    return wanted


async def begin(
    keeper: SessionKeeper, session: Session, wanted: Wanted, speaking: Speaking
) -> tuple[Prompt, Turn]:
    """`SessionKeeper.begin`, with what is wrong about the request as BadBody."""
    from radixway.tokenizer import TemplateError

    try:
        return await keeper.begin(session, wanted, speaking)
    except TemplateError as error:
        raise BadBody(str(error), param=error.param, code=error.code) from None
    except ValueError as error:
        raise BadRequest(str(error)) from None


def prompt_ids(session: Session, turn: Turn) -> list[int]:
    """All tokens of a prompt."""
    return session.store.token_ids(turn.hold).tolist()


def _names(call: AgentCall) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-radixway-session", call.session.id.encode("ascii")),
        (b"x-radixway-call", call.head.id.encode("ascii")),
    ]
