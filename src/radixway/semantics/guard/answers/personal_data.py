"""Personal data in an answer: found sentence by sentence, as the sentences end.

text   [ context ][ window ……………………………… . ][ next …      at the end of a sentence, if it comes in `hold_back`
       [ context ][ window ……………… ][ overlap    ]          else before the last word that leaves an overlap
"""

import re
from collections.abc import Callable, Sequence

from radixway.core.config.guard import AnswerPiiConfig
from radixway.core.pipeline import PersonalDataFinder, PersonalDataSpan
from radixway.semantics.guard.answers.text_view import TextEdit, TextJudge, TextView, find_sentence_end
from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.redaction import mask_text

_CONTEXT = 64
"""Characters before a window that the finder sees too."""
_MAX_OVERLAP_CHARS = 48
"""Characters of a window that had to be cut that are seen again in the next one."""
_BARE_NUMBER = re.compile(r"[:,\[]\s*-?\Z")
_OPEN = re.compile(r"[\d@:/\\A-ZÀ-Þ\u3040-\uffff]")
_WORD = re.compile(r"\S+")
_SPACE = re.compile(r"\s")


class PersonalDataJudge(TextJudge):
    """Gives windows of one text to a finder.

    A window is a sentence, or at most `hold_back` characters, and is seen with a little of what came before.
    What was restored from placeholders is the client's own and counts for nothing.
    """

    rule = "answers.pii"

    def __init__(
        self,
        section: AnswerPiiConfig,
        finder: PersonalDataFinder,
        is_known: Callable[[str], bool],
        hold_back: int,
    ) -> None:
        """`is_known`: whether the request told that text itself."""
        super().__init__(section.action)
        self._section = section
        self._finder = finder
        self._is_known = is_known
        self._hold_back = hold_back
        self._overlap = min(_MAX_OVERLAP_CHARS, hold_back // 3)
        self._begin = 0

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        edits: list[TextEdit] = []
        text, max_chars = view.text, self._hold_back
        while self.stop is None and self._begin < len(text):
            end = find_sentence_end(text, self._begin, max_chars)
            if end is not None:
                await self._judge_window(view, end, end, edits)
            elif len(text) - self._begin > max_chars:
                seen = self._begin + max_chars
                cut = seen - self._overlap
                await self._judge_window(
                    view, _find_last_space(text, self._begin + 1, cut) or cut, seen, edits
                )
            elif last:
                await self._judge_window(view, len(text), len(text), edits)
            else:
                break
        self._settle_windows(view, last=last)
        return edits

    async def judge_overdue(self, view: TextView) -> Sequence[TextEdit]:
        edits: list[TextEdit] = []
        cut = _find_open_words(view.text, self._begin)
        if self.stop is None and cut > self._begin:
            await self._judge_window(view, cut, len(view.text), edits, grows=True)
        self._settle_windows(view, last=False)
        return edits

    def _settle_windows(self, view: TextView, *, last: bool) -> None:
        holds = self.action in ("mask", "block")
        self.safe = self._begin if holds and not last else len(view.text)

    async def _judge_window(
        self, view: TextView, cut: int, seen: int, edits: list[TextEdit], *, grows: bool = False
    ) -> None:
        """Judge what begins in `[self._begin, cut)` with text up to `seen`, which may still grow."""
        begin = self._begin
        start = max(0, begin - _CONTEXT)
        found = [
            (span, max(span.begin + start, begin), span.end + start)
            for span in await self._finder.find(view.text[start:seen])
            if self._is_counted(span) and span.end + start > begin
        ]
        for _, first, end in found:
            if not first < cut < end:
                continue
            is_complete = end < seen or (first == begin and not grows)
            cut = end if is_complete else first
        for span, first, end in found:
            if first < cut:
                self._record_found(view, span, first, min(end, cut), edits)
        self._begin = cut

    def _is_counted(self, found: PersonalDataSpan) -> bool:
        section = self._section
        if section.types and found.type not in section.types:
            return False
        return found.confidence >= section.thresholds.get(found.type, section.threshold)

    def _record_found(
        self, view: TextView, found: PersonalDataSpan, begin: int, end: int, edits: list[TextEdit]
    ) -> None:
        if self.stop is not None or self._is_known(view.text[begin:end]):
            return
        for first, after in view.own_parts(begin, end):
            text = view.text[first:after]
            if not any(map(str.isalnum, text)):
                continue
            self.add_finding(view, found.type, first, after, found.confidence)
            if self.action == "block":
                self.stop = first
                return
            if self.action == "mask" and (found.type in self._section.types or found.type not in SOFT_TYPES):
                edits.append(TextEdit(first, after, self._masked_text(view, found, first, text)))

    def _masked_text(self, view: TextView, found: PersonalDataSpan, begin: int, text: str) -> str:
        if view.in_json and _BARE_NUMBER.search(view.text, max(0, begin - 64), begin):
            return "0"
        return mask_text(found.type, text, self._section.mask)


def _find_last_space(text: str, begin: int, end: int) -> int | None:
    """Return the place behind the last space of `[begin, end)`."""
    for at in range(end - 1, begin - 1, -1):
        if _SPACE.match(text, at):
            return at + 1
    return None


def _find_open_words(text: str, begin: int) -> int:
    """Return where the last words begin that may be part of something longer: numbers, names, addresses.

    The last word of all is always one of them, unless there is a space behind it.
    """
    closed = len(text)
    for word in reversed(list(_WORD.finditer(text, begin))):
        if word.end() < len(text) and not _OPEN.search(word[0]):
            break
        closed = word.start()
    return closed
