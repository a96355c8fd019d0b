"""An external service that judges answers, in OpenAI's protocol: `POST …/v1/moderations`."""

from __future__ import annotations

import json
import re
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Any

from radixway.core.config import ConfigError
from radixway.core.config.guard import ModerationConfig
from radixway.core.pipeline import GuardUnavailableError
from radixway.semantics.guard.answers.text_view import AnswerRule, TextPiece, TextView, find_sentence_end

if TYPE_CHECKING:
    from aiohttp import ClientSession, StreamReader

_CONTEXT = 1000
"""Characters of earlier text that the service sees, too."""
_MAX_REPLY_BYTES = 2**20
_CATEGORY = re.compile(r"[A-Za-z][A-Za-z0-9_/-]{0,63}")


class ModerationClient:
    """Client of the service. Its key and what it is asked are never logged."""

    def __init__(self, section: ModerationConfig) -> None:
        """Raises ConfigError where the key's file cannot be read."""
        self.section = section
        self._key = _key_of(section)
        self._session: ClientSession | None = None

    async def moderate_text(self, text: str) -> dict[str, float]:
        """Return the categories that the service finds in `text`, and their scores.

        Raises GuardUnavailableError: no answer in time, or none that can be understood.
        """
        import aiohttp

        payload = {"input": text} | ({"model": self.section.model} if self.section.model else {})
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        assert self.section.url is not None
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.section.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=True)
        try:
            async with self._session.post(
                self.section.url, json=payload, headers=headers, allow_redirects=False
            ) as reply:
                if reply.status != 200:
                    raise GuardUnavailableError(f"the moderation service answered with status {reply.status}")
                answer = json.loads(await _read_limited_body(reply.content))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError) as error:
            raise GuardUnavailableError(f"the moderation service: {type(error).__name__}") from None
        return self._parse_categories(answer)

    async def aclose(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _parse_categories(self, answer: Any) -> dict[str, float]:
        try:
            found: dict[str, float] = {}
            for result in [answer["results"][0], *answer["results"][1:]]:
                scores = {
                    self._category_name(name): _finite(score)
                    for name, score in result["category_scores"].items()
                }
                over: list[str] = []
                if thresholds := self.section.categories:
                    over = [name for name in thresholds if scores.get(name, 0) >= thresholds[name]]
                elif result["flagged"]:
                    flagged = (name for name, is_so in result["categories"].items() if is_so)
                    over = [self._category_name(name) for name in flagged] or ["flagged"]
                found |= {name: max(scores.get(name, 1.0), found.get(name, 0.0)) for name in over}
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise GuardUnavailableError("the moderation service's answer cannot be understood") from None
        return found

    def _category_name(self, name: str) -> str:
        """Return a name for journals: a service that says text in place of names is not quoted."""
        return name if name in self.section.categories or _CATEGORY.fullmatch(name) else "other"


class ModerationBatches(AnswerRule):
    """Sends one text to the service, a few sentences at a time.

    It is shown what the client will see, but with placeholders as the model wrote them: what was taken out
    of a request on its way to a model is not told to another service.
    """

    rule = "answers.moderation"

    def __init__(self, moderator: ModerationClient, hold_back: int) -> None:
        super().__init__(moderator.section.action)
        self._moderator = moderator
        self._longest = moderator.section.batch_chars + hold_back
        self._waiting: deque[TextPiece] = deque()
        self._unjudged = ""
        self._before = ""
        self._length = 0
        """Characters judged."""
        self.stopped = False

    async def moderate_pieces(self, view: TextView, pieces: list[TextPiece], *, now: bool) -> list[TextPiece]:
        """Return what may leave of `pieces` and those before; `now`: all of it is judged.

        Raises GuardUnavailableError. Positions of findings are those of what the service was shown.
        """
        for piece in pieces:
            self._waiting.append(piece)
            self._unjudged += _shown(piece)
        passed: list[TextPiece] = []
        while self._unjudged and not self.stopped:
            end = self._batch_end()
            if end is None and not now:
                break
            batch = self._unjudged[:end]
            if not await self._passes(view, batch):
                break
            self._unjudged = self._unjudged[len(batch) :]
            self._before = (self._before + batch)[-_CONTEXT:]
            passed += self._take_pieces(len(batch))
        if not self._unjudged:
            passed += self._waiting
            self._waiting.clear()
        return passed

    def release_unjudged(self) -> list[TextPiece]:
        """Return all that waits, unjudged."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._unjudged = ""
        return waiting

    def _batch_end(self) -> int | None:
        batch_chars = self._moderator.section.batch_chars
        if len(self._unjudged) <= batch_chars:
            return None
        end = find_sentence_end(self._unjudged, batch_chars - 1, self._longest - batch_chars)
        if end is not None:
            return end
        return self._longest if len(self._unjudged) > self._longest else None

    async def _passes(self, view: TextView, batch: str) -> bool:
        if not batch.strip():
            return True
        found = await self._moderator.moderate_text(self._before + batch)
        begin, end = self._length, self._length + len(batch)
        self._length = end
        for name, score in found.items():
            self.add_finding(view, name, begin, end, score)
        self.stopped = bool(found) and self.action == "block"
        return not self.stopped

    def _take_pieces(self, length: int) -> list[TextPiece]:
        """Remove and return the pieces of the next `length` characters that the service was shown."""
        taken: list[TextPiece] = []
        while length > 0:
            piece = self._waiting.popleft()
            shown = _shown(piece)
            if piece.stayed and len(shown) > length:
                piece, rest = piece.split(length)
                self._waiting.appendleft(rest)
                shown = piece.text
            elif len(shown) > length:  # what was put in is not divided: it goes with its first half
                self._unjudged = self._unjudged[len(shown) - length :]
            length -= len(shown)
            taken.append(piece)
        return taken


def _shown(piece: TextPiece) -> str:
    return piece.text if piece.shown is None else piece.shown


async def _read_limited_body(content: StreamReader) -> bytes:
    """Read all of a reply, in however many pieces it comes. Raises ValueError for one that is too long."""
    body = b""
    async for piece in content.iter_any():
        body += piece
        if len(body) > _MAX_REPLY_BYTES:
            raise ValueError("the reply is too long")
    return body


def _finite(score: float) -> float:
    score = float(score)
    if not isfinite(score):
        raise ValueError("a score that is no number")
    return score


def _key_of(section: ModerationConfig) -> str | None:
    if section.api_key_file is not None:
        try:
            return section.api_key_file.expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"guard.answers.moderation.api_key_file: it cannot be read: {error}") from None
    return None if section.api_key is None else section.api_key.get_secret_value()
