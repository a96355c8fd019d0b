"""One text of an answer on its way to the client.

worker's words ─ Restorer ─► view ─ judges ─► pieces ─ Batches ─► what the client gets
                             └ what no judge is sure of yet is held back
"""

import re
from collections.abc import Callable, Iterable

from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.moderation import ModerationBatches
from radixway.semantics.guard.answers.text_view import (
    AnswerRule,
    PieceQueue,
    TextEdit,
    TextJudge,
    TextPiece,
    TextView,
)
from radixway.semantics.guard.redaction import PlaceholderRestorer, RestoredText

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Tokenizers and services make nothing of these."""


class WatchedText:
    """Takes the text in any pieces; gives out what is certain, by the place it had in the worker's words."""

    def __init__(
        self,
        view: TextView,
        judges: Iterable[TextJudge],
        report: AnswerReport,
        restorer: PlaceholderRestorer | None = None,
        batches: ModerationBatches | None = None,
    ) -> None:
        """`restorer`: turns placeholders back. `batches`: what a service judges on the way."""
        self._view = view
        self._judges = list(judges)
        self._report = report
        self.stopped = False
        """The answer must end behind what has been decided."""
        self.length = 0
        """Characters that have come."""
        self.stop_at = 0
        """Where it was stopped, or what has been decided ends, in the worker's words."""
        self._restorer = restorer
        self._batches = batches
        self._undecided = PieceQueue()
        self._decided = PieceQueue()
        self._edits: list[TextEdit] = []
        self._at = 0
        """Position in the view up to which text is decided."""
        self._origin = 0
        """Characters of the worker's words that have been read into the view."""
        self._last = False

    @property
    def decided_until(self) -> int:
        """The place in the worker's words up to which it is decided what becomes of them."""
        return self.length if self._last or self.stopped else self.stop_at

    @property
    def has_pending(self) -> bool:
        """Return whether something is held back."""
        return self.decided_until < self.length

    async def append_text(self, text: str, *, last: bool = False) -> None:
        """Add `text`; `last`: nothing follows."""
        if self.stopped or self._last:
            return
        self.length += len(text)
        self._extend_view(text, last=last)
        await self._judge(last=last)
        self._last = last

    async def decide_overdue(self) -> None:
        """Decide what has waited long enough."""
        if not (self.stopped or self._last):
            await self._judge(last=False, hurry=True)

    def take_until(self, place: int) -> list[TextPiece]:
        """Return what the client gets for the worker's words up to `place`, as far as that is known."""
        return self._decided.take_until(place)

    def _extend_view(self, text: str, *, last: bool) -> None:
        if self._restorer is None:
            parts = [RestoredText(text, text)] if text else []
        else:
            parts = self._restorer.restore_delta(text) + (self._restorer.restore_rest() if last else [])
        for part in parts:
            size = len(part.written)
            new = _LONE_SURROGATE.sub("\ufffd", part.text)
            self._undecided.append(TextPiece(new, self._origin, size, None if part.is_own else part.written))
            self._origin += size
            begin = len(self._view.text)
            self._view.text += new
            if not part.is_own:
                self._view.restored.append((begin, len(self._view.text)))

    async def _judge(self, *, last: bool, hurry: bool = False) -> None:
        for judge in list(self._judges):
            try:
                if hurry:
                    self._edits += await judge.judge_overdue(self._view)
                else:
                    self._edits += await judge.judge_view(self._view, last=last)
            except Exception as error:  # noqa: BLE001 - what fails for whatever reason is told, or ends it
                if self._report.report_failure(judge.rule, error):
                    self._judges.remove(judge)
                else:
                    judge.stop = judge.safe
        stop = min((judge.stop for judge in self._judges if judge.stop is not None), default=None)
        limit = min(
            (judge.safe for judge in self._judges if judge.stop is None), default=len(self._view.text)
        )
        stopped = stop is not None and limit >= stop
        if stop is not None and stopped:
            limit = max(stop, self._at)
        pieces = self._apply_edits(limit, past_limit=stopped)
        if (batches := self._batches) is not None:
            pieces = await self._moderate(batches, pieces, now=last or hurry or stopped)
            stopped = stopped or batches.stopped
        for piece in pieces:
            self._decided.append(piece)
            self.stop_at = piece.origin + piece.size
        self.stopped = stopped
        rules: list[AnswerRule] = [*self._judges]
        self._report.collect_findings(rules if self._batches is None else [*rules, self._batches])

    async def _moderate(
        self, batches: ModerationBatches, pieces: list[TextPiece], *, now: bool
    ) -> list[TextPiece]:
        try:
            return await batches.moderate_pieces(self._view, pieces, now=now)
        except Exception as error:  # noqa: BLE001 - as above
            if self._report.report_failure(batches.rule, error):
                self._batches = None
                return batches.release_unjudged()
            batches.stopped = True
            return []

    def _apply_edits(self, limit: int, *, past_limit: bool) -> list[TextPiece]:
        """Return the view up to `limit`, changed as the judges say.

        `past_limit`: apply an edit that reaches beyond the limit; else it waits, with all that follows.
        """
        edits = sorted(self._edits, key=lambda edit: (edit.begin, -edit.end))
        pieces: list[TextPiece] = []
        while edits and edits[0].begin < limit:
            edit = edits[0]
            if edit.end > limit and not past_limit:
                limit = max(edit.begin, self._at)
                break
            del edits[0]
            if edit.end <= self._at:
                continue  # inside another one
            pieces += self._undecided.take_length(max(0, edit.begin - self._at))
            gone = self._undecided.take_length(edit.end - max(edit.begin, self._at))
            size = sum(piece.size for piece in gone)
            pieces.append(TextPiece(edit.new, gone[0].origin, size, edit.new))
            self._at = edit.end
        if limit > self._at:
            pieces += self._undecided.take_length(limit - self._at)
            self._at = limit
        self._edits = edits
        return pieces


WatchText = Callable[..., WatchedText]
"""Begins a text: `(where, in_json=…)`."""
