"""Addresses that would carry what was said to a host that nobody allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radixway.config.guard.answers import ExfiltrationConfig
from radixway.guard.answers.addresses import (
    find_address_end,
    find_long_address_end,
    find_next_address,
    find_partial_address,
    parse_address,
)
from radixway.guard.answers.carrying import carries_payload
from radixway.guard.answers.judging import TextEdit, TextView
from radixway.guard.incident import GuardFinding

REMOVED = "#link-removed"
"""As an address it leads nowhere, and nothing is fetched from there."""


class ExfiltrationJudge:
    """Reads every address of one text. One that is longer than `hold_back` and leads to an unknown host is
    taken for one that carries something."""

    rule = "answers.exfiltration"

    def __init__(
        self,
        section: ExfiltrationConfig,
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
        self._findings: list[GuardFinding] = []

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        """See `Judge`."""
        edits: list[TextEdit] = []
        while self.stop is None and self._judge_next_address(view, edits, last=last):
            pass
        holds = self.action in ("strip", "block")
        self.safe = self._at if holds and not last else len(view.text)
        return edits

    async def judge_overdue(self, view: TextView) -> Sequence[TextEdit]:
        """See `Judge`: an address goes on waiting."""
        return ()

    def take_findings(self) -> list[GuardFinding]:
        """See `Judge`."""
        found, self._findings = self._findings, []
        return found

    def _judge_next_address(self, view: TextView, edits: list[TextEdit], *, last: bool) -> bool:
        """Judge one address; False where there is no other that could be judged now."""
        text = view.text
        if self._removing is not None:
            return self._remove_rest(view, edits)
        begin = find_next_address(text, self._at)
        if begin is None:
            self._at = len(text) if last else find_partial_address(text, self._at)
            return False
        self._at = begin
        end, is_sure = _find_address_end(view, begin, self._hold_back)
        if not (is_sure or last or end - begin >= self._hold_back):
            return False
        if not self._is_exfiltration(
            view, begin, end, is_whole=is_sure or end == len(text) < begin + self._hold_back
        ):
            self._at = end if end > begin else begin + 1
            return True
        self._findings.append(view.make_finding("exfiltration", begin, end, 1.0))
        if self.action == "block":
            self.stop = begin
        elif self.action == "strip":
            edits.append(TextEdit(begin, end, REMOVED))
        self._at = end
        if not is_sure:
            self._removing = begin
        return True

    def _remove_rest(self, view: TextView, edits: list[TextEdit]) -> bool:
        assert self._removing is not None
        end, is_sure = find_long_address_end(view.text, self._removing, self._at)
        if end > self._at and self.action == "strip":
            edits.append(TextEdit(self._at, end, ""))
        self._at = max(self._at, end)
        if is_sure:
            self._removing = None
        return is_sure

    def _is_exfiltration(self, view: TextView, begin: int, end: int, *, is_whole: bool) -> bool:
        address = parse_address(view.text, begin, end)
        if not address.host or self._allows(address.host):
            return False
        if not is_whole or any(start < end and stop > begin for start, stop in view.restored):
            return True
        told = self._told.setdefault(address.host, set())
        return carries_payload(address, lambda: f"{self._said()}\n{view.text[:begin].lower()}", told)


def _find_address_end(view: TextView, begin: int, most: int) -> tuple[int, bool]:
    """`addresses.end_of`, but that what was restored ends no address, whatever it holds."""
    end, is_sure = find_address_end(view.text, begin, most)
    for start, stop in view.restored:
        if begin < stop and start <= end < stop:
            if stop >= begin + most:
                return begin + most, False
            end, is_sure = find_address_end(view.text, stop, begin + most - stop)
    return end, is_sure
