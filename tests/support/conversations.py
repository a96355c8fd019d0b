"""Scripted agents on the core: real tokenizer, real template, replies that a test invents."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import radixway.bundled
from radixway.core.tokenizer import Tokenizer
from radixway.trajectories import TrajectoryStore
from radixway.trajectories.generate_replies import SampledTokens
from radixway.trajectories.sessions import (
    AgentSession,
    CallRequest,
    PromptBuilder,
    SessionCall,
    SessionRegistry,
    match_history,
)
from radixway.trajectories.sessions.prompt_builder import merge_messages
from radixway.trajectories.token_records import sampled_spans

Message = dict[str, Any]


@cache
def prompting() -> PromptBuilder:
    return PromptBuilder(tokenizer())


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.load(Path(radixway.bundled.__file__).parent / "guide")


def user(text: str) -> Message:
    return {"role": "user", "content": text}


@dataclass
class Record:
    """What the model saw and made in one call, as an engine would write it down."""

    prompt: list[int]
    ids: list[int]
    logprobs: list[float]
    versions: list[Any]


@dataclass
class Agents:
    """Calls a session as agents do, and writes down what the model saw and made."""

    session: AgentSession
    records: dict[str, Record] = field(default_factory=dict)
    time: float = 0.0

    def call(
        self,
        *messages: Message,
        says: str = "Hi!",
        finish: str = "stop",
        version: Any = "1",
        spans: Any = (),
        logprob: float = -0.5,
        **wanted: Any,
    ) -> SessionCall:
        """The model answers `says` to a conversation."""
        end = [2] if finish == "stop" else []
        ids = [*tokenizer().encode(says, add_special_tokens=False), *end]
        logprobs = [logprob - 0.25 * at for at in range(len(ids))]
        return self.answer(messages, ids, logprobs, says, finish, version, spans, **wanted)

    def answer(self, messages, ids, logprobs, says, finish, version, spans=(), **wanted) -> SessionCall:
        asked = CallRequest("m", list(messages), **wanted)
        session = self.session
        known = match_history(session, asked)
        reply = (
            [] if known.call is None else session.store.token_ids(known.call.hold)[known.call.sampled_at :]
        )
        prompt = prompting().build_prompt(asked, known, list(reply))
        turn = session.start_call(
            prompt.parent,
            prompt.ids,
            tokenizer().token_bytes,
            frame=asked.frame,
            model="m",
            messages=prompt.messages,
            resumes=prompt.resumes,
            deviations=prompt.deviations,
        )
        labels = sampled_spans(len(ids), version, spans=spans)
        said = SampledTokens(ids, says, array("f", logprobs), labels, version, None)
        message: Message = {"role": "assistant", "content": says}
        if prompt.resumes:
            message = merge_messages(prompt.parent.answer, message)
        self.time += 1
        name = f"c{len(self.records)}"
        seen = session.store.token_ids(turn.hold).tolist()
        call, _ = session.finish_call(
            turn, name, said, tokenizer().token_bytes, message, finish, created=self.time
        )
        versions = [version] * len(ids)
        for start, end, named in spans:
            versions[start:end] = [named] * (end - start)
        self.records[name] = Record(seen, ids, array("f", logprobs).tolist(), versions)
        return call

    def history(self, call: SessionCall) -> list[Message]:
        """The conversation as the client knows it."""
        return call.history()


def new_agents(store: TrajectoryStore | None = None, name: str = "s") -> Agents:
    book = SessionRegistry(TrajectoryStore() if store is None else store, max_sessions=10, idle_s=60)
    return Agents(book.create_session(name, 0.0))
