"""Every recogniser over one text, and which of their findings stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.ages import find_ages
from radixway.semantics.guard.pii.recognisers.bank_numbers import find_cards, find_ibans
from radixway.semantics.guard.pii.recognisers.dates import find_dates
from radixway.semantics.guard.pii.recognisers.domains import find_domains
from radixway.semantics.guard.pii.recognisers.emails import find_emails
from radixway.semantics.guard.pii.recognisers.ip_addresses import find_ips
from radixway.semantics.guard.pii.recognisers.national_ids import find_cn_ids, find_licenses, find_ssns
from radixway.semantics.guard.pii.recognisers.phones import find_phones
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, to_plain_text
from radixway.semantics.guard.pii.recognisers.postal_codes import find_zips
from radixway.semantics.guard.pii.recognisers.streets import find_streets
from radixway.semantics.guard.step_executor import Steps, run_steps_inline

STRUCTURED_TYPES = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "US_DRIVER_LICENSE",
    "IP_ADDRESS",
    "DOMAIN_NAME",
    "ZIP_CODE",
    "STREET_ADDRESS",
    "DATE_TIME",
    "AGE",
    "CN_ID_CARD",
    "CN_BANK_CARD",
)
"""What can be found: the published types' names, and two of their kind for China."""

_FEWEST_DIGITS: tuple[tuple[int, Callable[[PlainText], Iterator[PersonalDataSpan]]], ...] = (
    (0, find_emails),
    (0, find_domains),
    (1, find_dates),
    (0, find_ages),
    (1, find_streets),
    (2, find_ips),
    (2, find_zips),
    (4, find_licenses),
    (6, find_phones),
    (9, find_ssns),
    (12, find_cards),
    (12, find_ibans),
    (15, find_cn_ids),
)
"""Each recogniser with the least number of digits in which there could be anything for it."""


WINDOW, HALO = 32_768, 1_024
"""Characters that are read at a time, and on either side of them: no form with a word beside it is as long.
"""


def find_structured(text: str) -> list[PersonalDataSpan]:
    """Findings of any confidence in the order of the text, none overlapping another.

    Confidences: from 0.95 where check digits agree, below 0.7 for what only looks like it. Positions count
    characters of `text` as given, whatever its digits and hyphens are written with.
    """
    return run_steps_inline(find_structured_steps(text))


def find_structured_steps(text: str) -> Steps[list[PersonalDataSpan]]:
    """The same, pausing after every window: a long text lets others pass, and needs no more memory."""
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
    found = [
        finding for fewest, find in _FEWEST_DIGITS if reading.digits >= fewest for finding in find(reading)
    ]
    return [_to_original(finding, reading) for finding in drop_overlaps(found)]


def drop_overlaps(found: Iterable[PersonalDataSpan]) -> list[PersonalDataSpan]:
    """Of findings that overlap, the surest stands; of equally sure ones the longest; then the first.

    In the order of the text, in O(n log n).
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
