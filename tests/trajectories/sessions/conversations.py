"""Scripted agents on the core: real tokenizer, real template, replies that a test invents."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import radixway.bundled
from radixway.tokenizer import Tokenizer
from radixway.trajectories import TrajectoryStore
from radixway.trajectories.records import sampled
from radixway.trajectories.replies import Sampled
from radixway.trajectories.sessions import (
    Call,
    Prompting,
    Session,
    SessionBook,
    Wanted,
    find_known,
)
from radixway.trajectories.sessions.prompting import merged

Message = dict[str, Any]


@cache
def prompting() -> Prompting:
    return Prompting(tokenizer())


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

    session: Session
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
    ) -> Call:
        """The model answers `says` to a conversation."""
        end = [2] if finish == "stop" else []
        ids = [*tokenizer().encode(says, add_special_tokens=False), *end]
        logprobs = [logprob - 0.25 * at for at in range(len(ids))]
        return self.answer(messages, ids, logprobs, says, finish, version, spans, **wanted)

    def answer(self, messages, ids, logprobs, says, finish, version, spans=(), **wanted) -> Call:
        asked = Wanted("m", list(messages), **wanted)
        session = self.session
        known = find_known(session, asked)
        reply = (
            [] if known.call is None else session.store.token_ids(known.call.hold)[known.call.sampled_at :]
        )
        prompt = prompting().make(asked, known, list(reply))
        turn = session.begin(
            prompt.parent,
            prompt.ids,
            tokenizer().token_bytes,
            frame=asked.frame,
            model="m",
            messages=prompt.messages,
            resumes=prompt.resumes,
            deviations=prompt.deviations,
        )
        labels = sampled(len(ids), version, spans=spans)
        said = Sampled(ids, says, array("f", logprobs), labels, version, None)
        message: Message = {"role": "assistant", "content": says}
        if prompt.resumes:
            message = merged(prompt.parent.answer, message)
        self.time += 1
        name = f"c{len(self.records)}"
        seen = session.store.token_ids(turn.hold).tolist()
        call, _ = session.end(turn, name, said, tokenizer().token_bytes, message, finish, created=self.time)
        versions = [version] * len(ids)
        for start, end, named in spans:
            versions[start:end] = [named] * (end - start)
        self.records[name] = Record(seen, ids, array("f", logprobs).tolist(), versions)
        return call

    def history(self, call: Call) -> list[Message]:
        """The conversation as the client knows it."""
        return call.history()


def new_agents(store: TrajectoryStore | None = None, name: str = "s") -> Agents:
    book = SessionBook(TrajectoryStore() if store is None else store, most=10, idle_s=60)
    return Agents(book.make(name, 0.0))
