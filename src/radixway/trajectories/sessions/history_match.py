"""Finds where in a session's tree a request continues: after the longest history it repeats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from radixway.trajectories.sessions.call import Message, SessionCall
from radixway.trajectories.sessions.session import AgentSession

_encode = msgspec.json.Encoder(order="sorted", enc_hook=repr).encode


@dataclass(slots=True)
class CallRequest:
    """A request for the next answer of a conversation."""

    model: str
    messages: Sequence[Message] = ()
    """The whole conversation as the client tells it; empty for a plain prompt."""
    prompt: str | Sequence[int] | None = None
    tools: Sequence[dict[str, Any]] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the chat template."""
    continues: bool = False
    """The last message is the beginning of the answer."""
    instructed: bool = False
    """The first message is the `instructions` of a Responses request."""
    after: SessionCall | None = None
    """The call that the client says it goes on from."""

    @property
    def frame(self) -> bytes:
        """Digest of all that the prompt depends on besides the messages."""
        if self.prompt is not None:
            return xxh3_128_digest(_encode([self.model]))
        return xxh3_128_digest(_encode([self.model, list(self.tools or ()), dict(self.arguments)]))


@dataclass(slots=True)
class KnownHistory:
    """The part of a request that is known."""

    call: SessionCall | None
    """The call with the last known answer, or None."""
    upto: int = 0
    """How much of the request that is: messages, characters, or token ids."""


def match_history(session: AgentSession, wanted: CallRequest) -> KnownHistory:
    """The deepest answer of the session up to which the request repeats what is known.

    Messages are compared by what they mean, plain prompts literally. Of several equal
    histories that of `wanted.after` is taken, else the latest.
    """
    frame = wanted.frame
    best = KnownHistory(None)
    preferred = set(wanted.after.path()) if wanted.after is not None else set()
    repeats = _history_matcher(session, wanted)
    waiting = [(root, 0) for root in session.roots]
    while waiting:
        call, at = waiting.pop()
        if call.frame != frame or (matched := repeats(call.messages, call, at)) is None:
            continue
        upto = repeats((call.answer,), call, matched)
        for child in call.children:
            if child.resumes:
                waiting.append((child, matched))  # its answer is the whole of which this call's is a part
            elif upto is not None:
                waiting.append((child, upto))
        if upto is None:
            continue
        if upto > best.upto or (upto == best.upto and _is_better(call, best.call, preferred)):
            best = KnownHistory(call, upto)
    return best


def _is_better(call: SessionCall, best: SessionCall | None, preferred: set[SessionCall]) -> bool:
    if best is None or (call in preferred) != (best in preferred):
        return call in preferred or best is None
    if call.resumes and call.parent is best:
        return True
    return call.created >= best.created


Compare = Callable[[Sequence[Message], SessionCall, int], int | None]
"""Up to where the request repeats these messages of a call, from some place on; None if it does not."""


def _history_matcher(session: AgentSession, wanted: CallRequest) -> Compare:
    sent = wanted.prompt
    if sent is None:
        return _messages_matcher(wanted.messages)
    return _text_matcher(sent) if isinstance(sent, str) else _ids_matcher(list(sent), session)


def _messages_matcher(sent: Sequence[Message]) -> Compare:
    from radixway.core.tokenizer import count_common_messages

    def repeats(known: Sequence[Message], _: SessionCall, at: int) -> int | None:
        upto = at + len(known)
        return upto if count_common_messages(known, sent[at:upto]) == len(known) else None

    return repeats


def _text_matcher(sent: str) -> Compare:
    def repeats(known: Sequence[Message], _: SessionCall, at: int) -> int | None:
        for message in known:
            if not sent.startswith(message["content"], at):
                return None
            at += len(message["content"])
        return at

    return repeats


def _ids_matcher(sent: list[int], session: AgentSession) -> Compare:
    def repeats(known: Sequence[Message], call: SessionCall, at: int) -> int | None:
        upto = call.end if known == (call.answer,) else call.sampled_at
        if call.hold is None or len(sent) < upto:
            return None
        added = session.store.token_ids(call.hold)[at:upto]
        return upto if sent[at:upto] == added.tolist() else None

    return repeats
