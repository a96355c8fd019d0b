"""The contract of a policy. Start here to write one; `Selector` calls it."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec

from radixway.routing.prefix_matches import PrefixMatches
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class Scores(msgspec.Struct, gc=False):
    """A policy's costs of the candidates, each list in their order."""

    costs: Sequence[float]
    """The lowest wins; infinity leaves a candidate out."""
    terms: tuple[str, ...] = ()
    """Names, with units, of the costs' terms, for the explanation."""
    parts: Sequence[Sequence[float]] = ()
    """A value for each of `terms`, per candidate."""
    reason: str | None = None
    """The deciding rule, if there are several."""


class View(msgspec.Struct, gc=False):
    """Facts that a policy may read besides the request and the workers."""

    matches: PrefixMatches
    """Matches of the prompt per candidate; empty unless the policy `reads_blocks`."""
    now: float
    """Monotonic seconds."""


class Policy(Protocol):
    """Orders workers for one request: a cost for each candidate, the lowest wins.

    Equal costs are settled by the selector, which takes the worker it chose least recently. A policy does no
    I/O. One that remembers where prompts went is told of each choice.
    """

    name: ClassVar[str]
    reads_blocks: ClassVar[bool] = False
    """Whether it reads the prompt's blocks, which then have to be hashed and matched."""
    reads_text: ClassVar[bool] = False
    """Whether it reads the prompt's text."""
    reads_session: ClassVar[bool] = False
    counts_blocks: ClassVar[bool] = False
    """Whether it reads the blocks in use by requests in flight."""
    counts_room: ClassVar[bool] = False
    """Whether it reads them only of workers whose KV cache fills up."""
    binds_late: ClassVar[bool] = False
    """Whether requests may wait for the worker with the lowest cost (`late_binding.py`). Costs are seconds
    then, and `prefill_s` is one of the terms."""
    temperature: float = 0.0
    """Above 0 the selector draws from the costs instead of taking the lowest (see `Selector`)."""

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        """Score `candidates` (at least one)."""

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        """Note that `request` was sent to `worker` at `now`, in monotonic seconds."""
        return

    def finish(self, session: str) -> bool:
        """Forget `session`, which has ended. Returns True if it was known."""
        return False

    def forget_texts(self) -> int:
        """Drop all prompt texts, for erasure: texts are not kept by user, so all of them go.

        Returns the number of stored texts.
        """
        return 0

    def forget(self, worker: Worker) -> None:
        """Forget `worker`, which has left the fleet."""
        return
