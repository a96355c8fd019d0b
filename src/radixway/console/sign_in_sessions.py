"""The sessions of signed-in visitors, in memory: they end with the process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_SIGNED_IN = 10_000


@dataclass(slots=True, eq=False)
class SignInSession:
    """One who gave the key, or needs none."""

    key: str | None = field(repr=False)
    seen_at: float
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """Called when it is over: connections that it opened are to end."""
    over: bool = False
    chat_token: str | None = field(default=None, repr=False)
    """With which the chat service is asked, once it was."""


class SignInSessions:
    """Sessions by the random token that a browser's cookie holds."""

    def __init__(self, idle_s: float, clock: Callable[[], float]) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._by_token: dict[str, SignInSession] = {}

    def create_session(self, key: str | None) -> str:
        """Return the token of a new session with `key`."""
        self._drop_expired()
        while len(self._by_token) >= _MOST_SIGNED_IN:
            self.end_session(next(iter(self._by_token)))
        token = secrets.token_urlsafe(32)
        self._by_token[token] = SignInSession(key, self._clock())
        return token

    def find_session(self, token: str | None, *, active: bool = True) -> SignInSession | None:
        """Return the session of `token`; None if it is over. `active`: it is prolonged."""
        found = None if token is None else self._by_token.get(token)
        if token is None or found is None:
            return None
        now = self._clock()
        if now - found.seen_at > self._idle_s:
            self.end_session(token)
            return None
        if active:
            found.seen_at = now
        return found

    def end_session(self, token: str) -> None:
        """End the session of `token`, and its connections."""
        found = self._by_token.pop(token, None)
        if found is not None:
            found.over = True
            found.key = found.chat_token = None
            for each in found.on_end:
                each()

    def touch_session(self, session: SignInSession) -> None:
        """Prolong `session`: its visitor is active."""
        session.seen_at = self._clock()

    def is_over(self, session: SignInSession) -> bool:
        """Tell if `session` has expired; never where no key is needed."""
        if session.key is not None and not session.over and self._clock() - session.seen_at > self._idle_s:
            self.expire_session(session)
        return session.over

    def expire_session(self, session: SignInSession) -> None:
        """End `session`, as its key is not valid any more."""
        for token, each in list(self._by_token.items()):
            if each is session:
                self.end_session(token)

    def _drop_expired(self) -> None:
        now = self._clock()
        for token in [t for t, each in self._by_token.items() if now - each.seen_at > self._idle_s]:
            self.end_session(token)
