"""Forgets what routing has of people's prompts: texts, tokens, and which worker a session is bound to."""

from __future__ import annotations

from radixway.pipeline import Subject
from radixway.routing.selector import Selector
from radixway.routing.token_cache import TokenCache


class ErasablePrompts:
    """What is in memory to choose workers by, as `pipeline.Erasable`.

    Nobody noted whose prompts those are. It is a cache: all of it goes, and costs time alone.
    """

    name = "routing"
    by = frozenset({"tenant", "user", "session", "request"})

    def __init__(self, selector: Selector, tokens: TokenCache) -> None:
        self._selector = selector
        self._tokens = tokens

    async def erase(self, subject: Subject) -> int:
        """See `Erasable`: how many prompts and stretches of them, whosever they were."""
        bonds = (subject.session, subject.user)
        ended = sum(self._selector.finish_session(name) for name in bonds if name is not None)
        return ended + self._selector.forget_texts() + self._tokens.clear()
