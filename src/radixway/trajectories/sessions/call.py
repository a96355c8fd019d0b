"""One call of an agent: what it added to the conversation, in messages and in tokens.

tokens   [ parent's path        )[ prompt, mask 0    )[ sampled, mask 1 )
         0                 begin                sampled_at             end
messages   parent's and before    messages              answer
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from radixway.core.chat_images import list_image_urls
from radixway.trajectories.store import PathHold
from radixway.trajectories.token_records import Spans

Message: TypeAlias = dict[str, Any]
Finish = Literal["stop", "length", "abort"]


@dataclass(slots=True, frozen=True)
class AddedTokens:
    """Tokens as a call added them; lists are per token."""

    ids: array[int]
    logprobs: array[float]
    """float32, natural logarithms: 0 for the prompt, NaN where the worker sent none."""
    spans: Spans
    text: bytes
    """Text of the tokens, special ones included."""
    ends: array[int]
    """After how many bytes of the text each token ends."""


@dataclass(slots=True, eq=False)
class PendingCall:
    """A call under way: its prompt is held in the store, nothing is sampled yet."""

    parent: SessionCall | None
    frame: bytes
    """Digest of what the prompt depends on besides the messages: model, tools, template arguments."""
    model: str
    messages: tuple[Message, ...]
    hold: PathHold
    begin: int
    sampled_at: int
    prompt: AddedTokens
    resumes: bool = False
    """It continues its parent's answer, and appends nothing."""
    instructed: bool = False
    """The first message is the `instructions` of a Responses request, which the next one may drop."""
    deviations: tuple[str, ...] = ()

    def history(self) -> list[Message]:
        """Return all messages of its prompt."""
        return [*(self.parent.history() if self.parent is not None else ()), *self.messages]


@dataclass(slots=True, eq=False)
class SessionCall:
    """A finished call, or one that broke off after it had sampled something."""

    id: str
    parent: SessionCall | None
    frame: bytes
    model: str
    messages: tuple[Message, ...]
    answer: Message
    """The answer as the client will send it back."""
    begin: int
    sampled_at: int
    end: int
    finish: Finish
    stop: str | None = None
    hold: PathHold | None = None
    """The end of its path; None once the session is collected."""
    experts: bytes | None = None
    experts_start: int = 0
    """The first token of the path that they are for; the last is the one before the path's last."""
    resumes: bool = False
    instructed: bool = False
    exact: bool = True
    """Id and log-probability of every sampled token are the worker's own."""
    deviations: tuple[str, ...] = ()
    """Descriptions of how earlier tokens differ from the chat template."""
    created: float = 0.0
    """Seconds since the epoch."""
    wire: str = ""
    reward: float | None = None
    children: list[SessionCall] = field(default_factory=list)

    @property
    def claimed_bytes(self) -> int:
        """Bytes of what it has besides tokens: routed experts, images."""
        return len(self.experts or b"") + sum(map(len, list_image_urls(self.messages)))

    def path(self) -> list[SessionCall]:
        """The calls that lead here, this one last."""
        path: list[SessionCall] = []
        call: SessionCall | None = self
        while call is not None:
            path.append(call)
            call = call.parent
        return path[::-1]

    def history(self) -> list[Message]:
        """Return all messages up to its answer."""
        messages: list[Message] = []
        for call in self.path():
            if call.resumes:
                messages.pop()  # its answer is the whole of it
            messages += [*call.messages, call.answer]
        return messages
