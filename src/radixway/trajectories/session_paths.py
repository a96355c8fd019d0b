"""The paths that sessions took through the tree: of several records of one text, a session finds its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from radixway.trajectories.text_match import Place, TextPosition, truncate_position, within_character

_MAX_SESSIONS = 100_000
_MAX_PATHS_PER_SESSION = 64
"""Samples of a prompt, and histories before an edit."""


@dataclass(frozen=True, slots=True)
class SessionPath:
    """The path to where one of a session's records ends."""

    end: Place
    strides: int
    """Strides from the root; the edge of `end` may have grown beyond them since."""

    @property
    def nodes(self) -> set[Place]:
        """Return all nodes of the path."""
        return set(self.end.path_from_root())

    def cut_position(self, place: TextPosition, text: bytes) -> TextPosition | None:
        """Return `place` on one of the path's edges, or where the path ends before it.

        None if that end is not behind a whole character of `text`, or not known in it.
        """
        if place.strides <= self.strides:
            return place
        end = truncate_position(place, place.tokens - (place.strides - self.strides))
        return None if end.strides != self.strides or within_character(text, end.text) else end

    def extends_path(self, earlier: SessionPath) -> bool:
        """Is the end of `earlier` on the path?"""
        node: Place | None = self.end
        while node is not None and node is not earlier.end and node.end >= earlier.strides:
            node = node.parent
        return node is earlier.end and earlier.strides <= self.strides


class SessionPaths:
    """The ends of each session's records, as far as they are still stored."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[Hashable, list[SessionPath]] = OrderedDict()

    def register_session(self, session: Hashable) -> None:
        """Note that `session` exists, whatever becomes of its records."""
        self._sessions.setdefault(session, [])
        self._sessions.move_to_end(session)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def record_end(self, session: Hashable, end: Place) -> None:
        """A record of `session` ends where `end` does now."""
        new = SessionPath(end, end.end)
        self.register_session(session)
        paths = [path for path in self._sessions[session] if path.end.attached and not new.extends_path(path)]
        self._sessions[session] = [*paths[1 - _MAX_PATHS_PER_SESSION :], new]

    def __contains__(self, session: Hashable) -> bool:
        """Was it met, whether it has records now or not?"""
        return session is not None and session in self._sessions

    def own_position(
        self, session: Hashable, reached: Sequence[TextPosition], text: bytes
    ) -> tuple[TextPosition, set[Place], int] | None:
        """The position furthest on a path of `session`, on the way to one of `reached` in `text`, with that
        path's nodes and strides."""
        best: tuple[TextPosition, set[Place], int] | None = None
        for path in reversed(self._sessions.get(session, ())):
            nodes = path.nodes
            ways = (path.cut_position(place, text) for place in reached if place.node in nodes)
            mine = [place for place in ways if place is not None]
            if mine:
                furthest = max(mine, key=lambda place: (place.text, place.strides))
                if best is None or furthest.text > best[0].text:
                    best = furthest, nodes, path.strides
        return best

    def forget_session(self, session: Hashable) -> None:
        """Forget `session`; it will not come back."""
        self._sessions.pop(session, None)

    def clear(self) -> None:
        """Forget all."""
        self._sessions.clear()
