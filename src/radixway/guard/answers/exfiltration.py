"""Addresses that would carry what was said to a host that nobody allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radixway.config.guard.answers import ExfiltrationSection
from radixway.guard.answers.addresses import begun_at, end_of, next_begin, read, rest_of
from radixway.guard.answers.carrying import carries
from radixway.guard.answers.judging import Edit, View
from radixway.guard.incident import Finding

REMOVED = "#link-removed"
"""As an address it leads nowhere, and nothing is fetched from there."""


class ExfiltrationJudge:
    """Reads every address of one text. One that is longer than `hold_back` and leads to an unknown host is
    taken for one that carries something."""

    rule = "answers.exfiltration"

    def __init__(
        self,
        section: ExfiltrationSection,
        allows: Callable[[str], bool],
        said: Callable[[], str],
        hold_back: int,
    ) -> None:
        """`allows`: whether a host may be told anything. `said`: the request's texts, in lower case."""
        self.action = section.action
        self.safe = 0
        self.stop: int | None = None
        self._allows = allows
        self._said = said
        self._hold_back = hold_back
        self._at = 0
        """No address begins before it that was not judged."""
        self._removing: int | None = None
        """Where the address began that is taken out, and has not ended yet."""
        self._told: dict[str, set[str]] = {}
        """Words of the conversation by the host that they were told."""
        self._findings: list[Finding] = []

    async def grow(self, view: View, *, last: bool) -> Sequence[Edit]:
        """See `Judge`."""
        edits: list[Edit] = []
        while self.stop is None and self._next(view, edits, last=last):
            pass
        holds = self.action in ("strip", "block")
        self.safe = self._at if holds and not last else len(view.text)
        return edits

    async def hurry(self, view: View) -> Sequence[Edit]:
        """See `Judge`: an address goes on waiting."""
        return ()

    def take_findings(self) -> list[Finding]:
        """See `Judge`."""
        found, self._findings = self._findings, []
        return found

    def _next(self, view: View, edits: list[Edit], *, last: bool) -> bool:
        """Judge one address; False where there is no other that could be judged now."""
        text = view.text
        if self._removing is not None:
            return self._remove_rest(view, edits)
        begin = next_begin(text, self._at)
        if begin is None:
            self._at = len(text) if last else begun_at(text, self._at)
            return False
        self._at = begin
        end, is_sure = _end_of(view, begin, self._hold_back)
        if not (is_sure or last or end - begin >= self._hold_back):
            return False
        if not self._is_bad(view, begin, end, is_whole=is_sure or end == len(text) < begin + self._hold_back):
            self._at = end if end > begin else begin + 1
            return True
        self._findings.append(view.finding("exfiltration", begin, end, 1.0))
        if self.action == "block":
            self.stop = begin
        elif self.action == "strip":
            edits.append(Edit(begin, end, REMOVED))
        self._at = end
        if not is_sure:
            self._removing = begin
        return True

    def _remove_rest(self, view: View, edits: list[Edit]) -> bool:
        assert self._removing is not None
        end, is_sure = rest_of(view.text, self._removing, self._at)
        if end > self._at and self.action == "strip":
            edits.append(Edit(self._at, end, ""))
        self._at = max(self._at, end)
        if is_sure:
            self._removing = None
        return is_sure

    def _is_bad(self, view: View, begin: int, end: int, *, is_whole: bool) -> bool:
        address = read(view.text, begin, end)
        if not address.host or self._allows(address.host):
            return False
        if not is_whole or any(start < end and stop > begin for start, stop in view.restored):
            return True
        told = self._told.setdefault(address.host, set())
        return carries(address, lambda: f"{self._said()}\n{view.text[:begin].lower()}", told)


def _end_of(view: View, begin: int, most: int) -> tuple[int, bool]:
    """`addresses.end_of`, but that what was restored ends no address, whatever it holds."""
    end, is_sure = end_of(view.text, begin, most)
    for start, stop in view.restored:
        if begin < stop and start <= end < stop:
            if stop >= begin + most:
                return begin + most, False
            end, is_sure = end_of(view.text, stop, begin + most - stop)
    return end, is_sure
