"""What an engine says that it saw and made, and whether a told trajectory is that."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Call:
    """One request as the engine answered it; `logprobs` and `versions` are of `made`."""

    session: Hashable
    rid: Hashable
    text: str
    """Of prompt and answer, as the client has it."""
    prompt: list[int]
    made: list[int]
    logprobs: list[float]
    versions: list[int | str | None]

    @property
    def ids(self) -> list[int]:
        return self.prompt + self.made


@dataclass(slots=True)
class Told:
    """A trajectory as it was retrieved, lists per token."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    versions: list[int | str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int) -> Told:
        return Told(self.ids[:count], self.logprobs[:count], self.mask[:count], self.versions[:count])

    def answered(self) -> Told:
        """As far as the last answer goes: of a prompt alone other tokens may be made when more follows."""
        return self.first(max((at + 1 for at, made in enumerate(self.mask) if made), default=0))

    def keeps(self, known: Told) -> bool:
        """Does it begin with what is `known`, each sampled token with its record?

        A token that a client wrote may have a record besides, of somebody for whom it was sampled.
        """
        begins = self.first(len(known))
        rows = zip(begins.logprobs, begins.mask, begins.versions, strict=True)
        records = zip(known.logprobs, known.mask, known.versions, strict=True)
        return begins.ids == known.ids and all(
            mine == record or not record[1] for mine, record in zip(rows, records, strict=True)
        )

    def and_made(self, call: Call) -> Told:
        """Followed by what the engine made of it."""
        return Told(
            self.ids + call.made,
            self.logprobs + float32(call.logprobs),
            self.mask + [1] * len(call.made),
            self.versions + call.versions,
        )


def float32(numbers: Sequence[float]) -> list[float]:
    return array("f", numbers).tolist()


class EngineRecord:
    """All calls of one engine."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def refutes(self, told: Told, text: str, session: Hashable = None) -> str | None:
        """Why this is not what the engine saw and made of a text, in `session` where that has it."""
        assert len(told.ids) == len(told.logprobs) == len(told.mask) == len(told.versions)
        own = [call for call in self.calls if session is not None and call.session == session]
        has_it = any(call.text.startswith(text) for call in own)
        calls = [call for call in (own if has_it else self.calls) if call.ids[: len(told)] == told.ids]
        if not calls:
            return "the session has this text with other tokens" if has_it else "no request has these tokens"
        reasons = [self._refutes_as(told, call) for call in calls]
        return None if None in reasons else str(reasons[-1])

    def _refutes_as(self, told: Told, call: Call) -> str | None:
        records = list(zip(float32(told.logprobs), told.versions, strict=True))
        own = list(zip(float32(call.logprobs), call.versions, strict=True))
        seen = len(call.prompt)
        if 0 in told.mask[seen:] or records[seen:] != own[: len(records[seen:])]:
            return "the last answer is not recorded as the engine made it"
        for at, (mask, record) in enumerate(zip(told.mask[:seen], records[:seen], strict=True)):
            if not mask and record != (0.0, None):
                return f"token {at} is not to be trained on, but has {record}"
            if mask and not any(self._made(other, told.ids, at, record) for other in self.calls):
                return f"token {at} was never sampled with {record}"
        return None

    @staticmethod
    def _made(call: Call, ids: list[int], at: int, record: tuple) -> bool:
        place = at - len(call.prompt)
        return (
            0 <= place < len(call.made)
            and (float32([call.logprobs[place]])[0], call.versions[place]) == record
            and call.ids[: at + 1] == ids[: at + 1]
        )
