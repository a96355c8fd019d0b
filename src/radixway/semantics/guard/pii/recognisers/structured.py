"""Runs every recogniser over a text, and chooses between findings that overlap."""

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from radixway.core.pipeline import PersonalDataSpan
from radixway.core.work_slices import run_at_once
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, Recogniser, to_plain_text
from radixway.semantics.guard.step_executor import Steps


def _discover_recognisers() -> list[Recogniser]:
    """Return what the modules of this package list in `RECOGNISERS`, those for texts without digits first."""
    package = __name__.rpartition(".")[0]
    modules = [
        importlib.import_module(f"{package}.{module.name}")
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    ]
    found: list[Recogniser] = [each for module in modules for each in getattr(module, "RECOGNISERS", ())]
    return sorted(found, key=lambda each: each.fewest_digits)


_RECOGNISERS = _discover_recognisers()
STRUCTURED_TYPES = tuple(name for each in _RECOGNISERS for name in each.types)
"""Published names of the types that can be found, and two of their kind for China."""

WINDOW, HALO = 32_768, 1_024
"""Characters that are read at a time, and on either side of them: no form with a word beside it is as long.
"""


def find_structured(text: str) -> list[PersonalDataSpan]:
    """Findings of any confidence in the order of the text, none overlapping another.

    Confidences: from 0.95 where check digits agree, below 0.7 for what only looks like it. Positions count
    characters of `text` as given, whatever its digits and hyphens are written with.
    """
    return run_at_once(find_structured_steps(text))


def find_structured_steps(text: str) -> Steps[list[PersonalDataSpan]]:
    """Do `find_structured` in steps, one for each window, so that a long `text` does not block others."""
    found: list[PersonalDataSpan] = []
    for begin in range(0, len(text), WINDOW):
        if begin:
            yield
        end = begin + WINDOW
        before = max(0, begin - HALO)
        done = found[-1].end if found else 0
        for each in _find_in_window(text[before : end + HALO]):
            first, last = each.begin + before, each.end + before
            if max(begin, done) <= first < end:
                found.append(PersonalDataSpan(each.type, first, last, each.confidence))
    return found


def _find_in_window(text: str) -> list[PersonalDataSpan]:
    reading = to_plain_text(text)
    able = (each for each in _RECOGNISERS if reading.digits >= each.fewest_digits)
    found = [finding for each in able for finding in each.find(reading)]
    return [_to_original(finding, reading) for finding in drop_overlaps(found)]


def drop_overlaps(found: Iterable[PersonalDataSpan]) -> list[PersonalDataSpan]:
    """Return `found` in order; of those that overlap the surest, of equally sure ones the longest, the first.

    Takes O(n log n).
    """
    standing: list[PersonalDataSpan] = []
    covered: set[int] = set()
    for finding in sorted(found, key=lambda f: (-f.confidence, f.begin - f.end, f.begin)):
        span = range(finding.begin, finding.end)
        if covered.isdisjoint(span):
            covered.update(span)
            standing.append(finding)
    return sorted(standing, key=lambda f: f.begin)


def _to_original(finding: PersonalDataSpan, reading: PlainText) -> PersonalDataSpan:
    begin, end = reading.original_span(finding.begin, finding.end)
    return PersonalDataSpan(finding.type, begin, end, finding.confidence)
