"""Templates filled with names, organisations, addresses and dates that nobody has."""

import random
import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache

from faker import Faker

from pii_head.authored import broken, vocabulary
from pii_head.gazetteers import LOCALES
from pii_head.rows import Labelled, Row, merged, template_group
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.gazetteers import read_list
from radixway.semantics.guard.pii.sequence_tagger import join_address_parts

_SLOT = re.compile(r"\{(\w+)\}")
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Stand for braces that are text."""

_PLAIN = [
    "en_US",
    "en_GB",
    "en_IN",
    "de_DE",
    "fr_FR",
    "es_ES",
    "es_MX",
    "it_IT",
    "nl_NL",
    "pl_PL",
    "pt_BR",
    "sv_SE",
    "no_NO",
]
"""Locales of which addresses and companies are taken."""
WORDS = vocabulary("en")
_DAYS = date(1946, 11, 21), date(2028, 11, 20)
"""Fixed, so that the same seed gives the same rows on any day."""


def fill(templates: list[str], source: str, times: int, seed: int, *, weight: float = 1.0) -> Iterator[Row]:
    """Each template `times` over; the same seed gives the same rows."""
    rng = random.Random(seed)
    values = Values(rng)
    for template in templates:
        for _ in range(times):
            yield filled(template, values, rng, source, weight)


def filled(template: str, values: "Values", rng: random.Random, source: str, weight: float) -> Row:
    """One template, once; some are written small altogether, as people do."""
    small = rng.random() < 0.2
    escaped = template.replace("{{", _OPEN).replace("}}", _CLOSE)
    text, spans, at = "", [], 0
    for slot in _SLOT.finditer(escaped):
        text += escaped[at : slot.start()]
        kind, value = values.of(slot[1])
        if kind:
            spans.append(Labelled(kind, len(text), len(text) + len(value)))
        text += value
        at = slot.end()
    text = (text + escaped[at:]).replace(_OPEN, "{").replace(_CLOSE, "}").replace("\\n", "\n")
    if small and len(text.lower()) == len(text):
        text = text.lower()
    whole = _one_address(spans, text) if source.startswith("authored") else spans
    return Row(text, merged(whole, text), source, template_group(template), weight=weight)


def _one_address(spans: list[Labelled], text: str) -> list[Labelled]:
    """Ours are labelled as the head's findings are: a street with its place and code is one address."""
    found = [PersonalDataSpan(each.type, each.begin, each.end, 1.0) for each in spans]
    return [Labelled(each.type, each.begin, each.end) for each in join_address_parts(found, text)]


def presidio_templates(rows: Iterator[str]) -> list[str]:
    """Presidio's, their slots in one pair of braces."""
    return [broken(re.sub(r"\{\{(\w+)\}\}", r"{\1}", row)) for row in rows]


class Values:
    """What slots are filled with; the type that it is, or none."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._faker = {locale: _faker(locale) for locale in {*LOCALES, *_PLAIN}}
        for at, locale in enumerate(sorted(self._faker)):
            self._faker[locale].seed_instance(rng.randrange(2**32) + at)
        self._places = [place.title() for place in read_list("places")]
        nrp = [entry for entry in read_list("nrp") if entry.isascii()]
        self._nrp = [written_large(entry) for entry in nrp]

    def of(self, slot: str) -> tuple[str | None, str]:
        """Raises KeyError for a slot that there is not."""
        name, kind = _SLOTS[slot]
        value: str = getattr(self, f"_{name}")()
        return kind, value

    def _any(self) -> Faker:
        locale = self._rng.choice(LOCALES) if self._rng.random() < 0.6 else "en_US"
        return self._faker[locale]

    def _person(self) -> str:
        first, last = self._first(), self._last()
        form = self._rng.random()
        if form < 0.08:
            return f"{first} {self._rng.choice('ABCDEFGHJKLMNPRSTW')}. {last}"
        if form < 0.13:
            return f"{first} {self._first()} {last}"
        if form < 0.17:
            return f"{first} {last}-{self._last()}"
        if form < 0.2:
            return f"{first} {self._rng.choice(WORDS['particles'])} {last}"
        if form < 0.22:
            return f"{self._rng.choice('ABCDEFGHJKLMNPRSTW')}. {last}"
        if form < 0.24:
            return f"{first} {last} Jr."
        return f"{first} {last}"

    def _first(self) -> str:
        return self._any().first_name()

    def _last(self) -> str:
        return self._any().last_name()

    def _org(self) -> str:
        form, rng = self._rng.random(), self._rng
        if form < 0.25:
            return self._faker[rng.choice(_PLAIN)].company()
        if form < 0.45:
            return rng.choice(WORDS["well_known"])
        if form < 0.6:
            return rng.choice(WORDS["public"]).format(self._city())
        if form < 0.8:
            word = "".join(rng.sample(WORDS["syllables"], rng.choice([2, 2, 3]))).capitalize()
            return word if rng.random() < 0.5 else f"{word} {rng.choice(WORDS['suffixes'])}"
        if form < 0.9:
            return f"{self._last()} {rng.choice(WORDS['suffixes'])}"
        return " ".join(each.capitalize() for each in self._faker["en_US"].words(rng.choice([1, 2, 2, 3])))

    def _city(self) -> str:
        if self._rng.random() < 0.75:
            return self._rng.choice(self._places)
        return self._faker[self._rng.choice(_PLAIN)].city()

    def _country(self) -> str:
        return self._faker["en_US"].country()

    def _nationality(self) -> str:
        return self._rng.choice(self._nrp)

    def _nationals(self) -> str:
        return self._nationality() + "s"

    def _age(self) -> str:
        return str(self._rng.randint(1, 99))

    def _year(self) -> str:
        return str(self._rng.randint(1930, 2026))

    def _weekday(self) -> str:
        return self._rng.choice(WORDS["weekdays"])

    def _date(self) -> str:
        day = self._faker["en_US"].date_between(*_DAYS)
        return day.strftime(self._rng.choice(WORDS["dates"]))

    def _street(self) -> str:
        return self._faker[self._rng.choice(_PLAIN)].street_address().replace("\n", " ")

    def _street_alone(self) -> str:
        return self._faker[self._rng.choice(_PLAIN)].street_name()

    def _building(self) -> str:
        return str(self._rng.randint(1, 9999))

    def _flat(self) -> str:
        return (
            f"{self._rng.choice(['Apt.', 'Suite', 'Unit', 'Apt', 'Flat', '#'])} {self._rng.randint(1, 999)}"
        )

    def _address(self) -> str:
        faker = self._faker[self._rng.choice(_PLAIN)]
        form = self._rng.random()
        if form < 0.5:
            whole = faker.address()
        elif form < 0.75:  # as Presidio writes them
            parts = [
                f"{self._building()} {faker.street_address()}",
                self._flat(),
                faker.city(),
                self._country() + " " + self._zip(),
            ]
            whole = "\n ".join(part for part in parts if self._rng.random() < 0.85)
        else:
            end = self._rng.choice([self._zip(), self._country()])
            whole = f"{faker.street_address()}, {self._city()}, {end}"
        return whole if self._rng.random() < 0.5 else re.sub(r"\s*\n\s*", ", ", whole)

    def _zip(self) -> str:
        return self._faker[self._rng.choice(["en_US", "en_US", *_PLAIN])].postcode()

    def _state(self) -> str:
        return self._faker["en_US"].state_abbr()

    def _honorific(self) -> str:
        return self._rng.choice(WORDS["honorifics"])

    def _job(self) -> str:
        return self._faker["en_US"].job().lower()

    def _number(self) -> str:
        return str(self._rng.randint(1000, 9_999_999))

    def __getattr__(self, name: str) -> Callable[[], str]:
        """Structured values, by Faker's own names."""
        return getattr(self._faker["en_US"], name.removeprefix("_"))  # type: ignore[no-any-return]


_SLOTS: dict[str, tuple[str, str | None]] = {
    "person": ("person", "PERSON"),
    "name": ("person", "PERSON"),
    "name_male": ("person", "PERSON"),
    "name_female": ("person", "PERSON"),
    "first": ("first", "PERSON"),
    "first_name": ("first", "PERSON"),
    "first_name_male": ("first", "PERSON"),
    "first_name_female": ("first", "PERSON"),
    "first_name_nonbinary": ("first", "PERSON"),
    "last": ("last", "PERSON"),
    "last_name": ("last", "PERSON"),
    "last_name_male": ("last", "PERSON"),
    "last_name_female": ("last", "PERSON"),
    "org": ("org", "ORGANIZATION"),
    "organization": ("org", "ORGANIZATION"),
    "city": ("city", "GPE"),
    "country": ("country", "GPE"),
    "nrp": ("nationality", "NRP"),
    "nrps": ("nationals", "NRP"),
    "nationality": ("nationality", "NRP"),
    "nation_woman": ("nationality", "NRP"),
    "nation_plural": ("nationals", "NRP"),
    "age": ("age", "AGE"),
    "address": ("address", "STREET_ADDRESS"),
    "street": ("street", "STREET_ADDRESS"),
    "street_name": ("street_alone", "STREET_ADDRESS"),
    "building_number": ("building", "STREET_ADDRESS"),
    "secondary_address": ("flat", "STREET_ADDRESS"),
    "postcode": ("zip", "ZIP_CODE"),
    "zip": ("zip", "ZIP_CODE"),
    "zipcode": ("zip", "ZIP_CODE"),
    "state_abbr": ("state", "GPE"),
    "date": ("date", "DATE_TIME"),
    "date_time": ("date", "DATE_TIME"),
    "date_of_birth": ("date", "DATE_TIME"),
    "year": ("year", "DATE_TIME"),
    "weekday": ("weekday", "DATE_TIME"),
    "day_of_week": ("weekday", "DATE_TIME"),
    "honorific": ("honorific", None),
    "prefix": ("honorific", None),
    "prefix_male": ("honorific", None),
    "prefix_female": ("honorific", None),
    "job": ("job", None),
    "number": ("number", None),
    "email": ("email", None),
    "phone": ("phone_number", None),
    "phone_number": ("phone_number", None),
    "ssn": ("ssn", None),
    "us_driver_license": ("number", None),
    "card": ("credit_card_number", None),
    "credit_card_number": ("credit_card_number", None),
    "iban": ("iban", None),
    "url": ("url", None),
    "ip": ("ipv4", None),
    "ip_address": ("ipv4", None),
}


@cache
def _faker(locale: str) -> Faker:
    return Faker(locale)


def written_large(entry: str) -> str:
    """As names of peoples are in English."""
    return " ".join(word[0].upper() + word[1:] for word in entry.split())
