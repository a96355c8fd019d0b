"""Personal data in an answer: found sentence by sentence, as the sentences end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from radixway.config.guard.answers import AnswerPiiSection
from radixway.guard.answers.judging import Edit, View
from radixway.guard.answers.windows import CONTEXT, closed_until, last_space, overlap_of, sentence_end
from radixway.guard.incident import Finding
from radixway.guard.pii.labels import SOFT_TYPES
from radixway.guard.placeholders import mask_of
from radixway.pipeline import PersonalData, PersonalDataFinder

_BARE_NUMBER = re.compile(r"[:,\[]\s*-?\Z")


class PersonalDataJudge:
    """Gives windows of one text to a finder; see `windows.py` for where they are cut.

    A window is a sentence, or at most `hold_back` characters, and is seen with a little of what came before.
    What was restored from placeholders is the client's own and counts for nothing.
    """

    rule = "answers.pii"

    def __init__(
        self,
        section: AnswerPiiSection,
        finder: PersonalDataFinder,
        is_known: Callable[[str], bool],
        hold_back: int,
    ) -> None:
        """`is_known`: whether the request told that text itself."""
        self.action = section.action
        self.safe = 0
        self.stop: int | None = None
        self._section = section
        self._finder = finder
        self._is_known = is_known
        self._hold_back = hold_back
        self._begin = 0
        self._findings: list[Finding] = []

    async def grow(self, view: View, *, last: bool) -> Sequence[Edit]:
        """See `Judge`. Raises what the finder raises."""
        edits: list[Edit] = []
        text, most = view.text, self._hold_back
        while self.stop is None and self._begin < len(text):
            end = sentence_end(text, self._begin, most)
            if end is not None:
                await self._judge(view, end, end, edits)
            elif len(text) - self._begin > most:
                seen = self._begin + most
                cut = last_space(text, self._begin + 1, seen - overlap_of(most))
                await self._judge(view, cut or seen - overlap_of(most), seen, edits)
            elif last:
                await self._judge(view, len(text), len(text), edits)
            else:
                break
        self._settle(view, last=last)
        return edits

    async def hurry(self, view: View) -> Sequence[Edit]:
        """See `Judge`."""
        edits: list[Edit] = []
        cut = closed_until(view.text, self._begin)
        if self.stop is None and cut > self._begin:
            await self._judge(view, cut, len(view.text), edits, grows=True)
        self._settle(view, last=False)
        return edits

    def take_findings(self) -> list[Finding]:
        """See `Judge`."""
        found, self._findings = self._findings, []
        return found

    def _settle(self, view: View, *, last: bool) -> None:
        holds = self.action in ("mask", "block")
        self.safe = self._begin if holds and not last else len(view.text)

    async def _judge(
        self, view: View, cut: int, seen: int, edits: list[Edit], *, grows: bool = False
    ) -> None:
        """Decide all that begins in `[self._begin, cut)`, having seen `[…, seen)`, which may still grow."""
        begin = self._begin
        start = max(0, begin - CONTEXT)
        found = [
            (each, max(each.begin + start, begin), each.end + start)
            for each in await self._finder.find(view.text[start:seen])
            if self._counts(each) and each.end + start > begin
        ]
        for _, first, end in found:
            if not first < cut < end:
                continue
            is_whole = end < seen or (first == begin and not grows)
            cut = end if is_whole else first
        for each, first, end in found:
            if first < cut:
                self._found(view, each, first, min(end, cut), edits)
        self._begin = cut

    def _counts(self, found: PersonalData) -> bool:
        section = self._section
        if section.types and found.type not in section.types:
            return False
        return found.confidence >= section.thresholds.get(found.type, section.threshold)

    def _found(self, view: View, found: PersonalData, begin: int, end: int, edits: list[Edit]) -> None:
        if self.stop is not None or self._is_known(view.text[begin:end]):
            return
        for first, after in view.own_parts(begin, end):
            text = view.text[first:after]
            if not any(map(str.isalnum, text)):
                continue
            self._findings.append(view.finding(found.type, first, after, found.confidence))
            if self.action == "block":
                self.stop = first
                return
            if self.action == "mask" and (found.type in self._section.types or found.type not in SOFT_TYPES):
                edits.append(Edit(first, after, self._mask(view, found, first, text)))

    def _mask(self, view: View, found: PersonalData, begin: int, text: str) -> str:
        if view.in_json and _BARE_NUMBER.search(view.text, max(0, begin - 64), begin):
            return "0"
        return mask_of(found.type, text, self._section.mask)
