"""Follows one publisher: puts its batches in order, notices what was missed, and asks for it.

A publisher numbers its batches from 0 and keeps the latest for replay. What becomes of a batch::

    live, next in order           applied
    live, later than that         buffered, while those in between are requested
    live, a number seen before    the publisher was restarted: all known blocks are dropped
    replayed, known already       skipped if it is the same; if not, see above
    replayed, next in order       applied, then the buffered ones that follow

A replay is requested from the last applied batch, not the one after: if it comes back unchanged, it is still
the same run of the publisher. A replay is requested on every connect, because a publisher does not send
earlier batches again.
"""

from xxhash import xxh3_64_intdigest as _fingerprint

from radixway.core.work_slices import WorkSlices
from radixway.routing.kv_events.engine_blocks import EngineBlockTracker
from radixway.routing.kv_events.event_decoder import (
    KvEventCounts,
    UnreadableBatchError,
    decode_batch,
    may_contain_clear,
)
from radixway.routing.worker import KvEventsState

MAX_BUFFERED_BATCHES = 20_000
"""Batches buffered while others are requested; later ones are requested in a further replay."""


class BatchSequencer:
    """Free of I/O: the caller passes batches in and requests a replay of `replay_from`.

    What applies batches is done in slices; the caller passes in nothing more before it is done.
    """

    def __init__(self, blocks: EngineBlockTracker, counts: KvEventCounts, *, can_replay: bool) -> None:
        self.blocks = blocks
        self.state = KvEventsState.CONNECTING
        self.reason: str | None = None
        """Why it is degraded; or what else is to be known of it."""
        self.exact = False
        """The known state equals the engine's at the last applied batch."""
        self.replay_from: int | None = None
        """First batch of the wanted replay; None if no replay is wanted."""
        self.attempt = 0
        """Number of the present replay; answers to earlier ones are ignored."""
        self.worth_retrying = False
        """It is degraded, but another replay may help."""
        self.last = -1
        """The last batch applied."""
        self._can_replay = can_replay
        self._counts = counts
        self._rank: int | None = None
        self._last_live = -1
        """Number of the latest live batch."""
        self._prints: dict[int, int] = {}
        """Fingerprints of the last applied batch and of replayed ones ahead of the live stream."""
        self._buffered: dict[int, bytes] = {}
        self._buffered_to = -1
        """The latest buffered batch when the replay was requested."""
        self._replayed_to = -1
        """The latest replayed batch."""
        self._joined = False
        """The replay continues what was applied."""
        self._must = False
        """Without the replay the state is uncertain."""

    # Input.

    def on_connected(self) -> None:
        """The publisher is connected, for the first time or again; batches sent until now are lost."""
        if self._can_replay:
            self._request_replay(must=True)
        elif self.exact:
            self._mark_degraded("the publisher was disconnected and offers no replay of what it sent")

    def verify_position(self) -> None:
        """Verify the position after silence, which a lost message explains as well as an idle engine."""
        if self._can_replay and self.exact and self.replay_from is None:
            self._request_replay(must=False)

    def retry_replay(self) -> None:
        """Request what an earlier replay did not return."""
        if self.state is KvEventsState.DEGRADED and self._can_replay and self.replay_from is None:
            self._request_replay(must=True)

    def on_disconnected(self, reason: str) -> None:
        """The publisher is disconnected."""
        self._mark_degraded(reason)

    def on_live_batch(self, number: int, payload: bytes) -> WorkSlices[None]:
        """A batch from the subscription. They come in order, but not all of them may come."""
        if number <= self._last_live or (
            number <= self.last and self._prints.get(number) != _fingerprint(payload)
        ):
            self._restart()
        elif number <= self.last:  # the replay was faster
            self._last_live = number
            return
        self._last_live = number
        if self.replay_from is not None:
            self._buffer_batch(number, payload)
        elif number == self.last + 1:
            if (yield from self._apply_batch(number, payload)):
                self._mark_following()
        elif self.exact:
            self._counts.gaps += 1
            missed = f"batches {self.last + 1} to {number - 1} were missed"
            self._request_missed(number, payload, f"{missed}, and there is no replay")
        elif may_contain_clear(payload) and (yield from self._apply_after_clear(number, payload)):
            self._mark_following()
        elif self.state is not KvEventsState.DEGRADED:
            late = f"it was joined at batch {number}, and there is no replay of what came before"
            self._request_missed(number, payload, late)

    def on_replayed_batch(self, attempt: int, number: int, payload: bytes) -> WorkSlices[None]:
        """A batch from a replay. They may come twice, in any order, and from another run than before."""
        if attempt != self.attempt or self.replay_from is None:
            return
        self._replayed_to = max(self._replayed_to, number)
        known = self._buffered.get(number)
        if number <= self.last:
            another = number in self._prints and self._prints[number] != _fingerprint(payload)
            self._joined = self._joined or (number == self.last and not another)
        else:
            another = known is not None and known != payload
        if another:
            self._restart()
            self._request_replay(must=True)
        elif number > self.last and known is None:
            self._buffer_batch(number, payload)
        if self._joined:
            yield from self._apply_buffered()

    def on_replay_ended(self, attempt: int) -> WorkSlices[None]:
        """The publisher has sent all that it had."""
        if attempt != self.attempt or self.replay_from is None:
            return
        self._counts.replays += 1
        self.replay_from = None
        if not self._joined:  # the last batch applied is not in its history: is it another run's, or too old?
            self._restart()
            self._request_replay(must=True)
            return
        yield from self._apply_buffered()
        if self.state is KvEventsState.DEGRADED:
            return
        first = min(self._buffered, default=None)
        if first is None:
            self._mark_following()
        elif first <= self._replayed_to:  # its history itself begins too late
            if (yield from self._resume_at_clear()):
                self._mark_following()
            else:
                self._mark_degraded(f"batches {self.last + 1} to {first - 1} are gone from its history")
        else:
            upto = self._buffered_to
            if first <= upto:  # received before the replay was requested, but not in it: another run's
                self._buffered = {n: payload for n, payload in self._buffered.items() if n > upto}
            self._request_replay(must=True)

    def on_replay_failed(self, attempt: int, reason: str) -> None:
        """Handle a failed or partial replay."""
        if attempt != self.attempt or self.replay_from is None:
            return
        self._counts.replays_failed += 1
        self.replay_from = None
        if self._must or self._buffered:
            self._mark_degraded(reason, worth_retrying=True)
        else:
            self.reason = reason

    # What follows from it.

    def _request_replay(self, *, must: bool) -> None:
        self.replay_from = max(self.last, 0)
        self.attempt += 1
        self._buffered_to = max(self._buffered, default=-1)
        self._replayed_to = -1
        self._joined = self.last < 0
        self._must = must
        if must:
            self.state, self.reason = KvEventsState.REPLAYING, None

    def _request_missed(self, number: int, payload: bytes, missed: str) -> None:
        """Ask for what came before batch `number`, which follows it. `missed`: what is lost otherwise."""
        if self._can_replay:
            self._buffer_batch(number, payload)
            self._request_replay(must=True)
        else:
            self._mark_degraded(missed)

    def _buffer_batch(self, number: int, payload: bytes) -> None:
        if len(self._buffered) < MAX_BUFFERED_BATCHES:
            self._buffered[number] = payload

    def _apply_buffered(self) -> WorkSlices[None]:
        while (payload := self._buffered.pop(self.last + 1, None)) is not None:
            if not (yield from self._apply_batch(self.last + 1, payload)):
                return

    def _apply_batch(self, number: int, payload: bytes) -> WorkSlices[bool]:
        """Apply a batch; return False if it cannot be, and degrade."""
        try:
            batch = yield from decode_batch(payload)
        except UnreadableBatchError as error:
            self._mark_degraded(f"batch {number} cannot be read: {error}")
            return False
        if self._rank is None:
            self._rank = batch.rank
        if batch.rank not in (None, self._rank):
            self._mark_degraded(
                f"ranks {self._rank} and {batch.rank} publish at one endpoint; give each its own"
            )
            return False
        self._counts.batches += 1
        self._counts.ignored += batch.ignored
        self._counts.unreadable += batch.unreadable
        for event in batch.events:
            yield from self.blocks.apply_event(event)
            yield
        self.last = number
        if number <= self._last_live:
            self._prints.clear()
        self._prints[number] = _fingerprint(payload)
        return True

    def _apply_after_clear(self, number: int, payload: bytes) -> WorkSlices[bool]:
        """Apply a batch after a clear, from which on the state is known."""
        clears = self.blocks.clears
        self.blocks.clear_blocks()
        if (yield from self._apply_batch(number, payload)) and self.blocks.clears > clears:
            return True
        if self.state is not KvEventsState.DEGRADED:
            self._mark_degraded(self.reason or "what it holds is unknown")
        self.blocks.clear_blocks()
        self.last = -1
        return False

    def _resume_at_clear(self) -> WorkSlices[bool]:
        """Resume at a clear after a gap: earlier batches no longer matter."""
        numbers = sorted(self._buffered)
        for number in reversed(numbers):
            if may_contain_clear(self._buffered[number]):
                payload = self._buffered.pop(number)
                if not (yield from self._apply_after_clear(number, payload)):
                    return False
                yield from self._apply_buffered()
                self._buffered = {later: bytes_ for later, bytes_ in self._buffered.items() if later > number}
                return not self._buffered
            if number - 1 not in self._buffered:
                return False
        return False

    def _mark_following(self) -> None:
        self.state, self.reason, self.exact = KvEventsState.FOLLOWING, None, True
        self.worth_retrying = False

    def _mark_degraded(self, reason: str, *, worth_retrying: bool = False) -> None:
        if self.state is not KvEventsState.DEGRADED:
            self._counts.degradations += 1
        self._reset_position()
        self.state, self.reason, self.worth_retrying = KvEventsState.DEGRADED, reason, worth_retrying

    def _restart(self) -> None:
        """Restart: another run of the publisher began with an empty cache."""
        self._counts.restarts += 1
        self._reset_position()
        self.state, self.reason, self._last_live, self._rank = KvEventsState.CONNECTING, None, -1, None

    def _reset_position(self) -> None:
        self.exact, self.replay_from, self.last = False, None, -1
        self.attempt += 1
        self._buffered.clear()
        self._prints.clear()
        self.blocks.clear_blocks()
