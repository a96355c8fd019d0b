"""The store: a radix tree of tokens that is found by text."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from radixway.core.radix import OutlineNode, PrefixMatch, RadixRoot, RadixTree, outline
from radixway.trajectories.insertion import EdgeSegment, TokenDecoder, make_edge_segment
from radixway.trajectories.memory_budget import MemoryBudget, StoreFullError
from radixway.trajectories.session_paths import SessionPaths
from radixway.trajectories.text_match import (
    Place,
    StrideIndex,
    TextPosition,
    is_ancestor,
    is_answered,
    longest_matches,
    read_ids,
    read_trajectory,
    skip_hidden,
    walk_text,
)
from radixway.trajectories.token_records import Trajectory, Version, WeightVersions
from radixway.trajectories.token_run import MAX_VARIANTS, PER_NODE, STRIDE, TokenRun, is_chunk, variant_stride
from radixway.trajectories.token_segment import PackedIds, TokenSegment

_MAX_EDGE_STRIDES = 8192
"""Longest edge that grows with its conversation instead of getting a child."""


@dataclass(slots=True)
class TrajectoryMatch:
    """The longest known beginning of a text."""

    place: TextPosition
    ambiguous: bool = False
    """Several records begin like this and no session decided: this is the latest of them. Or the
    session that was meant has another, or had one."""
    answered: int = 0
    """Tokens up to the end of the session's own last answer on the way, if that was its end."""

    @property
    def tokens(self) -> int:
        """The number of known tokens."""
        return self.place.tokens

    @property
    def text(self) -> int:
        """Bytes of the text, in UTF-8, that they stand for."""
        return self.place.text


@dataclass(slots=True, eq=False)
class PathHold:
    """The end of a path that will not be evicted before it is released."""

    node: Place
    tokens: int
    """Tokens from the beginning of the sequence."""


class TrajectoryStore:
    """Conversations' tokens, found by their text. Belongs to one thread.

    `decoder` says what tokens stand for; without one, or where tokens do not spell the text, a stretch can be
    found by its whole text only. At most `max_bytes` of memory and `max_tokens` tokens are used: what was
    used least recently goes first, from the ends of conversations, and never what is held. Stores that are
    given one `memory` keep its bound together.
    """

    def __init__(
        self,
        decoder: TokenDecoder | None = None,
        *,
        max_bytes: int | None = None,
        max_tokens: int | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.decoder = decoder
        self.memory = MemoryBudget(max_bytes) if memory is None else memory
        self.max_tokens = max_tokens
        self.tokens = 0
        self.versions = WeightVersions()
        self._tree: RadixTree[bytes, TokenRun] = RadixTree(width=STRIDE)
        self._pieces = StrideIndex()
        self._run_bytes = 0
        self._clock = 0
        self.paths = SessionPaths()
        """Which session took which path."""
        self._latest: tuple[Hashable, TokenSegment, TextPosition] | None = None
        """The last insertion and its end, which the next one may continue."""
        self.memory.register_store(self)

    @property
    def nodes(self) -> int:
        """Edges of the tree."""
        return len(self._tree)

    @property
    def nbytes(self) -> int:
        """Memory used, as far as it is counted: all but what depends on the vocabulary."""
        return self._run_bytes + PER_NODE * len(self._tree)

    @property
    def evictable(self) -> int:
        """Return the tokens, and chunks of text, that are not locked."""
        return self._tree.evictable_size

    @property
    def held(self) -> int:
        """Tokens, and chunks of text, on paths that are held now."""
        return self._tree.locked_size

    def outline(self, limit: int, max_levels: int) -> list[OutlineNode[bytes, TokenRun]]:
        """The `limit` recorded stretches used last, `max_levels` deep; each after its parent."""
        return outline(self._tree, limit, max_levels, lambda node: node.payload.clock)

    def match_prefix(self, text: str, session: Hashable = None, *, hidden: bool = False) -> TrajectoryMatch:
        """The longest beginning of `text` whose tokens are known.

        Of several records of it that of `session` is taken, as far as it goes, else the latest. `hidden`
        adds the tokens after the text that have none themselves, such as a stop token. Does not count as a
        use.
        """
        raw = text.encode("utf-8", "surrogatepass")
        reached = walk_text(self._namespace_root(None), raw, self._pieces)
        own, answered = self.paths.own_position(session, reached, raw), 0
        if own is not None:
            reached = [
                own[0],
                *(place for place in reached if is_ancestor(own[0], place) and place != own[0]),
            ]
            answered = own[0].tokens if own[0].strides == own[2] and is_answered(own[0]) else 0
        best = longest_matches(reached, raw)
        if own is not None and own[0].text == best[0].text:
            taken = next((place for place in best if place is own[0]), best[0])
            ambiguous = False
        else:
            taken = max(best, key=_last_use)
            ambiguous = len(best) > 1 or session in self.paths
        if hidden and taken.text == len(raw):
            taken, several = skip_hidden(taken, own)
            ambiguous |= several
        return TrajectoryMatch(taken, ambiguous, answered)

    def trajectory(self, of: TrajectoryMatch | PathHold) -> Trajectory:
        """The tokens that lead to `of`, with their records. Does not count as a use."""
        found = read_trajectory(_position(of))
        found.ambiguous = isinstance(of, TrajectoryMatch) and of.ambiguous
        return found

    def token_ids(self, of: TrajectoryMatch | PathHold) -> array[int]:
        """The token ids that lead to `of`."""
        return read_ids(_position(of))

    def mark_used(self, found: TrajectoryMatch) -> None:
        """Count a use of what was `found`: it is evicted later."""
        self._tree.touch(found.place.node)
        self._mark_path_used(found.place.node, None)

    def hold_path(self, of: TrajectoryMatch | PathHold) -> PathHold:
        """Hold the path to `of` until `release_hold`. Raises ValueError if it has been evicted since."""
        return PathHold(self._lock_node(_position(of)), of.tokens)

    def release_hold(self, hold: PathHold) -> None:
        """Release a held path; once for each `hold`."""
        self._tree.unlock(hold.node)

    def insert(
        self,
        given: TokenSegment,
        version: Version | None = None,
        *,
        session: Hashable = None,
        namespace: Hashable = None,
        ends: Sequence[int] = (),
    ) -> PathHold:
        """Store a sequence from its beginning; it is held until `release_hold`.

        `version`: the weights in use, for `collect`. `ends`: after how many bytes of the text each token
        ends, where known. Raises StoreFullError, and ValueError for text without tokens or tokens
        without text.
        """
        if not given.ids or not given.text:
            raise ValueError("there must be a text and its tokens")
        known = self._match_segment(given, namespace)
        self._latest = None
        hold = PathHold(self._lock_node(PrefixMatch(known.node, known.strides)), known.tokens)
        rest = given.skip_prefix(known.tokens, known.text)
        ends = [end - known.text for end in ends[known.tokens :]]
        hold = self.extend_path(hold, rest, version, session=session, ends=ends)
        end = TextPosition(hold.node, hold.node.end, len(given.text), hold.tokens)
        self._latest = namespace, given, end
        return hold

    def extend_path(
        self,
        hold: PathHold,
        given: TokenSegment,
        version: Version | None = None,
        *,
        session: Hashable = None,
        ends: Sequence[int] = (),
    ) -> PathHold:
        """Continue a held path; the hold moves to the new end, and `hold` itself is of no use any more.

        Raises StoreFullError; the path is then released.
        """
        self.versions.add_version(version)
        if session is not None:
            self.paths.register_session(session)
        node = hold.node
        if given.ids:
            stretch = make_edge_segment(given, ends, self.decoder, first=not hold.tokens)
            node = self._insert_segment(node, stretch, session)
        self._mark_path_used(node, version if version is not None else self.versions.latest)
        if session is not None:
            self.paths.record_end(session, node)
            node.payload.mark_end(session)
        return PathHold(node, hold.tokens + len(given.ids))

    def evict(self, strides: int) -> None:
        """Evict so many `strides` (tokens, or chunks of text), or all that nothing holds."""
        self._unlearn_runs(self._tree.evict(strides))

    def collect_versions(self, current: Version, k: int) -> int:
        """Remove what no weights newer than `k` versions before `current` have used; how many nodes went.

        What is held stays, and what leads to it.
        """
        age = self.versions.version_age
        old = [node for node in self._tree.nodes() if age(node.payload.used, current) >= k]
        gone = 0
        for node in reversed(old):
            if not node.pins and not node.children:
                self._unlearn_runs(self._tree.remove_subtree(node))
                gone += 1
        return gone

    def remove_text(self, text: str) -> int:
        """Remove the tokens behind which no text but `text` ends, and all below; how many tokens went.

        Raises ValueError if some of them are held; 0 if no record ends exactly there.
        """
        raw = text.encode("utf-8", "surrogatepass")
        gone = 0
        for reached in longest_matches(walk_text(self._namespace_root(None), raw, self._pieces), raw):
            node = skip_hidden(reached)[0].node
            if reached.text == len(raw) and reached.strides and node.attached:
                runs = self._tree.remove_subtree(node)
                self._unlearn_runs(runs)
                gone += sum(run.tokens for run in runs)
        return gone

    def remove_leaf(self, node: Place) -> None:
        """Remove a node that nothing goes on from. Raises ValueError if it is held."""
        self._unlearn_runs(self._tree.remove_subtree(node))

    def clear(self) -> None:
        """Remove everything. Raises ValueError if something is held."""
        self._unlearn_runs(self._tree.clear_namespaces())
        self._pieces = StrideIndex()
        self.paths.clear()

    def __str__(self) -> str:
        return str(self._tree)

    def check(self) -> None:
        """Recompute everything from scratch and compare. Raises AssertionError with the difference."""
        self._tree.check()
        tokens = total = 0
        for node in self._tree.nodes():
            run, parent = node.payload, node.parent
            run.check(node.size)
            chunks = sum(is_chunk(node.key, at) for at in range(node.size))
            assert run.chunks == chunks, "an edge has another number of chunks than it says"
            assert parent is not None
            if not isinstance(parent, RadixRoot):
                assert parent.payload.clock >= run.clock, "a node was used later than its parent"
            found = self._pieces.matching_children(parent, run.text, 0)
            assert node in found, "an edge is not found by its text"
            tokens += run.tokens
            total += run.nbytes
        assert tokens == self.tokens, f"{self.tokens} tokens were counted, {tokens} are there"
        assert total <= self._run_bytes, f"{self._run_bytes} bytes were counted, {total} are there"
        if not self._tree.locked_size:
            bound = self.memory.max_bytes
            assert bound is None or self.nbytes <= bound, "too many bytes are used"
            assert self.max_tokens is None or self.tokens <= self.max_tokens, "there are too many tokens"

    def _namespace_root(self, namespace: Hashable) -> TextPosition:
        return TextPosition(self._tree.match(b"", namespace, touch=False).node, 0, 0, 0)

    def _match_segment(self, given: TokenSegment, namespace: Hashable) -> TextPosition:
        """Return the last node whose text, tokens and records `given` begins with."""
        if self._latest is not None:
            where, latest, end = self._latest
            if where == namespace and end.node.attached and given.starts_with(latest):
                return end
        ids = PackedIds(given.ids)

        def fits(node: Place, at: int) -> bool:
            run = node.payload
            return ids.covers_edge(node, at) and given.first_mismatch(run, run.tokens, at) == run.tokens

        known = self._namespace_root(namespace)
        for reached in walk_text(known, given.text, self._pieces, fits):
            if reached.tokens > known.tokens:
                known = reached
        return known

    def _insert_segment(self, node: Place, stretch: EdgeSegment, session: Hashable) -> Place:
        """Insert a segment below the locked `node`; the lock moves to its end. Raises StoreFullError."""
        if isinstance(node, RadixRoot):  # held while the tree was empty, or emptied since: not the tree's own
            node = self._namespace_root(node.namespace).node
        at = 0
        while at < len(stretch):
            first = stretch.stride_at(at)
            for number in range(MAX_VARIANTS):
                stride = variant_stride(first, number)
                child = node.children.get(stride)
                if child is None:
                    key = stride + stretch.key[(at + 1) * STRIDE :]
                    run = stretch.run.split(at)[1] if at else stretch.run
                    return self._append_edge(node, key, run, session)
                if same := stretch.common_strides(child, at):
                    break
            else:
                self._tree.unlock(node)
                raise StoreFullError(f"the same tokens have {MAX_VARIANTS} records, all there can be")
            below = self._lock_node(PrefixMatch(child, child.start + same))
            self._tree.unlock(node)
            node, at = below, at + same
        return node

    def _append_edge(self, node: Place, key: bytes, run: TokenRun, session: Hashable) -> Place:
        """Append new strides below the locked `node`; the lock moves to its end. Raises StoreFullError."""
        tree = self._tree
        try:
            self._free_memory(run.tokens, run.nbytes + PER_NODE)
        except StoreFullError:
            tree.unlock(node)
            raise
        lengthens = not isinstance(node, RadixRoot) and node.payload.can_join(run, _MAX_EDGE_STRIDES, session)
        if not lengthens:
            tree.lock(node)  # what is locked twice gets a child
        before = node.payload.nbytes if lengthens and not node.children and node.pins == 1 else 0
        grown: Place = tree.grow(node, key, run).node
        if not lengthens:
            tree.unlock(node)
        self.tokens += run.tokens
        self._run_bytes += grown.payload.nbytes - before
        if grown is not node:
            self._pieces.add_edge(grown)
        return grown

    def _lock_node(self, where: PrefixMatch[bytes, TokenRun]) -> Place:
        """Lock a node, registering the lower part of a split edge."""
        cuts = where.inside > 0
        before = where.node.payload.nbytes if cuts else 0
        locked: Place = self._tree.lock(where)
        if cuts:
            (lower,) = locked.children.values()
            self._pieces.add_edge(lower)
            self._run_bytes += locked.payload.nbytes + lower.payload.nbytes - before
        return locked

    def _free_memory(self, tokens: int, size: int) -> None:
        """Evict until this fits. Raises StoreFullError if locked nodes leave no space."""
        while self.max_tokens is not None and (over := self.tokens + tokens - self.max_tokens) > 0:
            if not self.evictable:
                raise StoreFullError("all that is stored is held: collect sessions, or give more room")
            self.evict(over)
        self.memory.make_room(size)

    def _unlearn_runs(self, runs: list[TokenRun]) -> None:
        self.tokens -= sum(run.tokens for run in runs)
        self._run_bytes -= sum(run.nbytes for run in runs)
        if not len(self._tree):
            self._run_bytes = 0  # cuts between two spans leave a little counted that is not there

    def _mark_path_used(self, node: Place, version: Version | None) -> None:
        self._clock += 1
        while node.parent is not None:
            run = node.payload
            run.clock = self._clock
            if (
                version is not None
                and run.used != version
                and self.versions.version_age(run.used, version) > 0
            ):
                run.used = version
            node = node.parent


def _position(of: TrajectoryMatch | PathHold) -> PrefixMatch[bytes, TokenRun]:
    if isinstance(of, PathHold):
        return PrefixMatch(of.node, of.node.end)
    return PrefixMatch(of.place.node, of.place.strides)


def _last_use(place: TextPosition) -> int:
    return place.node.payload.clock if place.strides else 0
