"""A session: a tree of calls whose tokens are held in the store."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal

from radixway.trajectories.given import Given
from radixway.trajectories.memory import StoreFull
from radixway.trajectories.records import Label, Spans, Version, join_spans
from radixway.trajectories.replies import Sampled
from radixway.trajectories.sessions.call import Call, Finish, Message, Stretch, Turn
from radixway.trajectories.store import Hold, TrajectoryStore

State = Literal["open", "finished", "collected"]

_PROMPT = Label("prompt", 0)


@dataclass(slots=True, eq=False)
class Session:
    """One agent's conversations. Belongs to the event loop.

    `open`: calls may be made. `finished`: no more calls, the samples wait to be collected; nothing of it is
    evicted until then. `collected`: its tokens are no longer held.
    """

    id: str
    store: TrajectoryStore
    model: str | None = None
    """The model that answers, whatever a call names; None: the one it names."""
    metadata: dict[str, Any] = field(default_factory=dict)
    created: float = 0.0
    """Seconds since the epoch."""
    used: float = 0.0
    state: State = "open"
    reward: float | None = None
    calls: dict[str, Call] = field(default_factory=dict)
    """By id, in the order in which they ended."""
    roots: list[Call] = field(default_factory=list)
    loaded: bool = True
    """The calls are here; otherwise they are in the archive only."""
    stored_calls: int = 0
    """How many there are in the archive, while they are not here."""
    turns: set[Turn] = field(default_factory=set)
    """Calls under way."""

    @property
    def leaves(self) -> list[Call]:
        """The calls that no other goes on from, in the order in which they ended."""
        return [call for call in self.calls.values() if not call.children]

    def begin(
        self,
        parent: Call | None,
        prompt: Sequence[int],
        token_bytes: Mapping[int, bytes],
        *,
        frame: bytes,
        model: str,
        messages: Iterable[Message],
        resumes: bool = False,
        instructed: bool = False,
        deviations: tuple[str, ...] = (),
    ) -> Turn:
        """A call begins: `prompt` are the tokens it appends to its parent's path, or the whole prompt.

        Ends with `end` or `drop`. Raises StoreFull.
        """
        stretch = _stretch(prompt, [0.0] * len(prompt), ((len(prompt), _PROMPT),), token_bytes)
        hold = self._lay(parent.hold if parent is not None else None, model, stretch)
        begin = 0 if parent is None else parent.end
        turn = Turn(
            parent,
            frame,
            model,
            tuple(messages),
            hold,
            begin,
            begin + len(prompt),
            stretch,
            resumes,
            instructed,
            deviations,
        )
        self.turns.add(turn)
        return turn

    def drop(self, turn: Turn) -> None:
        """Nothing came of a call. May be called after `end`, and again."""
        if turn in self.turns:
            self.turns.remove(turn)
            self.store.release(turn.hold)

    def end(
        self,
        turn: Turn,
        call_id: str,
        sampled: Sampled,
        token_bytes: Mapping[int, bytes],
        answer: Message,
        finish: Finish,
        **more: Any,
    ) -> tuple[Call, Stretch]:
        """A call has its answer; returned with all tokens it added, for the archive. Raises StoreFull.

        `more`: fields of `Call`. Where no log-probability was told, the call says that it is not exact.
        """
        stretch = _stretch(sampled.ids, sampled.logprobs, sampled.spans, token_bytes)
        self.turns.discard(turn)
        hold = self._extend(turn.hold, stretch, sampled.version)
        self._claim(sampled.experts, hold)
        missing = any(map(isnan, sampled.logprobs))
        call = Call(
            call_id,
            turn.parent,
            turn.frame,
            turn.model,
            turn.messages,
            answer,
            turn.begin,
            turn.sampled_at,
            turn.sampled_at + len(sampled.ids),
            finish,
            hold=hold,
            experts=sampled.experts,
            resumes=turn.resumes,
            instructed=turn.instructed,
            exact=not missing,
            deviations=turn.deviations
            + (("the worker told no log-probability of some tokens",) if missing else ()),
            **more,
        )
        self._add(call)
        return call, _joined(turn.prompt, stretch)

    def take_back(self, call: Call) -> None:
        """Nothing came of a call after all, and nothing has gone on from it yet."""
        assert not call.children and call.hold is not None
        del self.calls[call.id]
        (self.roots if call.parent is None else call.parent.children).remove(call)
        self.store.release(call.hold)
        call.hold = None
        self._give_back(call)

    def restore(self, call: Call, added: Stretch) -> None:
        """Take back a call from the archive, after the one it hangs on. Raises StoreFull."""
        call.hold = self._lay(call.parent.hold if call.parent is not None else None, call.model, added)
        self._claim(call.experts, call.hold)
        self._add(call)

    def release(self) -> None:
        """Hold its tokens no longer; what is under way ends as it would."""
        for call in self.calls.values():
            if call.hold is not None:
                self.store.release(call.hold)
                call.hold = None
                self._give_back(call)
        self.store.forget_session(self.id)

    def forget_calls(self) -> None:
        """Keep what was collected in the archive only."""
        self.release()
        self.stored_calls = len(self.calls)
        self.calls, self.roots, self.loaded = {}, [], False

    def check(self) -> None:
        """Recompute everything from scratch and compare. Raises AssertionError in words."""
        for call in self.calls.values():
            siblings = self.roots if call.parent is None else call.parent.children
            assert call in siblings, "a call does not hang where it says"
            assert call.begin == (0 if call.parent is None else call.parent.end), "a call begins elsewhere"
            assert call.begin <= call.sampled_at <= call.end, "a call's parts are out of order"
            assert (call.hold is None) == (self.state == "collected"), "a call is held at the wrong time"
            assert call.hold is None or call.hold.tokens == call.end, "a call ends elsewhere than its path"
        below = sum(len(call.children) for call in self.calls.values())
        assert below + len(self.roots) == len(self.calls), "a call hangs in two places, or in none"

    def _claim(self, experts: bytes | None, hold: Hold) -> None:
        """Routed experts are larger than the tokens, and count. Raises StoreFull; `hold` is then released."""
        try:
            self.store.memory.claim(len(experts or b""))
        except StoreFull:
            self.store.release(hold)
            raise

    def _give_back(self, call: Call) -> None:
        self.store.memory.give_back(len(call.experts or b""))

    def _add(self, call: Call) -> None:
        self.calls[call.id] = call
        (self.roots if call.parent is None else call.parent.children).append(call)

    def _lay(self, after: Hold | None, model: str, stretch: Stretch) -> Hold:
        if after is not None:
            return self._extend(self.store.hold(after), stretch, None)
        given = _given(stretch)
        return self.store.insert(given, session=self.id, namespace=model, ends=stretch.ends)

    def _extend(self, hold: Hold, stretch: Stretch, version: Version | None) -> Hold:
        return self.store.extend(hold, _given(stretch), version, session=self.id, ends=stretch.ends)


def _stretch(
    ids: Sequence[int], logprobs: Sequence[float], spans: Spans, token_bytes: Mapping[int, bytes]
) -> Stretch:
    pieces = [token_bytes[token_id] for token_id in ids]
    ends, end = array("I"), 0
    for piece in pieces:
        end += len(piece)
        ends.append(end)
    return Stretch(array("I", ids), array("f", logprobs), spans if ids else (), b"".join(pieces), ends)


def _joined(first: Stretch, second: Stretch) -> Stretch:
    size = len(first.text)
    return Stretch(
        first.ids + second.ids,
        first.logprobs + second.logprobs,
        join_spans(first.spans, second.spans),
        first.text + second.text,
        first.ends + array("I", (size + end for end in second.ends)),
    )


def _given(stretch: Stretch) -> Given:
    return Given.labelled(stretch.ids, stretch.text, stretch.logprobs, stretch.spans)
