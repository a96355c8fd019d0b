"""Chinese templates filled with names and addresses that nobody has; and the tagger they teach."""

import random
import re
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from pii_head.authored import vocabulary
from pii_head.calibration import read_rows, shifted, shifts
from pii_head.fit import Array, Choices, Example, Tagger, fit
from pii_head.rows import Labelled, Row
from pii_head.targets import allowed_tags
from radixway.semantics.encoders.base import Floats
from radixway.semantics.guard.pii.chinese_tagger import BIT, CHARACTERS, FEATURES, PAIRS, split_units
from radixway.semantics.guard.pii.gazetteers import read_list, word_kinds
from radixway.semantics.guard.pii.sequence_tagger import feature_matrix
from radixway.semantics.guard.pii.word_features import WordSpans

PAIR_SIZE = 12
_SLOT = re.compile(r"\{(\w+)\}")
_OPEN, _CLOSE = "\ue000", "\ue001"
_NUMERALS = "〇一二三四五六七八九"
WORDS = vocabulary("zh")
_PLACES, _ORGANISATIONS = ("provinces", "cities", "countries", "places"), ("organisations", "suffixes")
_NUMBERS = sum(BIT[f"digit{size}"] for size in (" 1", " 2", " 4", " 6", "s"))
_KNOWN_AS = {
    "GPE": sum(BIT[f"{side} {kind}"] for side in ("begins", "in") for kind in _PLACES),
    "NRP": BIT["begins nrp"] | BIT["in nrp"],
    "ORGANIZATION": sum(BIT[f"{side} {kind}"] for side in ("begins", "in") for kind in _ORGANISATIONS),
    "DATE_TIME": BIT["begins time"] | BIT["in time"] | _NUMBERS,
    "AGE": _NUMBERS,
    "ZIP_CODE": BIT["digit 6"],
}
"""Types, and the marks of what may be one."""


class Values:
    """What slots are filled with; the type that it is, or none."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._of = dict(word_kinds("zh"))
        self._nrp = [entry for entry in read_list("nrp") if not entry.isascii()]
        self._places = [place for place in read_list("places_zh") if 2 <= len(place) <= 6]

    def of(self, slot: str) -> tuple[str | None, str]:
        """Raises KeyError for a slot that there is not."""
        value: str = getattr(self, f"_{slot}")()
        return _TYPES[slot], value

    def _any(self, kind: str) -> str:
        return self._rng.choice(self._of[kind])

    def _surname(self) -> str:
        if self._rng.random() < 0.06:
            return self._any("double_surnames")
        # The list begins with the most frequent ones.
        return self._of["surnames"][min(int(self._rng.expovariate(1 / 45)), len(self._of["surnames"]) - 1)]

    def _person(self) -> str:
        rng = self._rng
        form = rng.random()
        if form < 0.04:
            return f"{self._surname()}某{rng.choice(['', '某'])}"
        if form < 0.09:
            return f"{rng.choice(['小', '阿', '老'])}{self._any('given')}"
        if form < 0.14:
            return f"{self._foreign()}·{self._foreign()}"
        given = "".join(self._given() for _ in range(rng.choice([1, 2, 2, 2])))
        return given if len(given) == 2 and form > 0.95 else self._surname() + given

    def _given(self) -> str:
        if self._rng.random() < 0.12:
            return (
                chr(self._rng.randint(0x4E00, 0x9FA5))
                if self._rng.random() < 0.3
                else self._rng.choice("".join(self._of["cities"]))
            )
        return self._any("given")

    def _foreign(self) -> str:
        return "".join(
            self._rng.choices(
                WORDS["foreign"],
                k=self._rng.choice([2, 2, 3, 3, 4]),
            )
        )

    def _city(self) -> str:
        rng = self._rng
        form = rng.random()
        if form < 0.15:
            return self._any("provinces") + rng.choice(["", "", "省"])
        if form < 0.3:
            return self._any("countries")
        if form < 0.4:
            return rng.choice(self._places)
        if form < 0.5:
            province = self._any("provinces") + rng.choice(["", "省"])
            return province + self._any("cities") + rng.choice(["", "市"])
        if form < 0.6:
            return (
                rng.choice(self._of["cities"])[:1]
                + rng.choice("安阳山河江州宁城川昌南北东西水平陵泉")
                + rng.choice(["县", "区", "市", "镇"])
            )
        return self._any("cities") + rng.choice(["", "", "市"])

    def _street(self) -> str:
        rng = self._rng
        road = (
            rng.choice(WORDS["roads"])
            + rng.choice(["东", "西", "南", "北", "中", "", "", "", ""])
            + rng.choice(WORDS["road_ends"])
        )
        return road + (f"{self._numeral(rng.randint(1, 999))}号" if rng.random() < 0.8 else "")

    def _address(self) -> str:
        rng = self._rng
        parts = []
        if rng.random() < 0.75:
            province = self._any("provinces") + rng.choice(["省", "", "市"]) if rng.random() < 0.5 else ""
            parts.append(province + self._any("cities") + rng.choice(["市", "市", ""]))
        if rng.random() < 0.7:
            parts.append(
                "".join(rng.choices(WORDS["district_characters"], k=rng.choice([1, 2])))
                + rng.choice(["区", "区", "县", "镇", "开发区"])
            )
        parts.append(self._street())
        if rng.random() < 0.5:
            parts.append(rng.choice(WORDS["estates"]) + rng.choice(WORDS["estate_ends"]))
        if rng.random() < 0.7:
            floor = rng.choice(WORDS["floors"])
            parts.append(floor.format(rng.randint(1, 40), rng.randint(1, 9), rng.randint(101, 3202)))
        return rng.choice(["", "", "", " "]).join(parts)

    def _org(self) -> str:
        rng = self._rng
        form = rng.random()
        if form < 0.22:
            return self._any("organisations")
        if form < 0.5:
            return f"{self._any('cities')}{rng.choice(['市', '', ''])}{rng.choice(WORDS['public'])}"
        brand = "".join(rng.sample(WORDS["brands"], rng.choice([2, 2, 3])))
        place = self._any("cities") + rng.choice(["", "市"]) if rng.random() < 0.5 else ""
        if form < 0.6:
            return brand + rng.choice(WORDS["short_forms"])
        return f"{place}{brand}{rng.choice(WORDS['trades'])}{rng.choice(WORDS['forms'])}"

    def _age(self) -> str:
        number = self._rng.randint(1, 99)
        return self._numeral(number) if self._rng.random() < 0.9 else _in_words(number)

    def _date(self) -> str:
        rng = self._rng
        year, month, day = rng.randint(1940, 2027), rng.randint(1, 12), rng.randint(1, 28)
        forms = [
            f"{year}年{month}月{day}日",
            f"{year}年{month}月{day}日",
            f"{month}月{day}日",
            f"{month}月{day}号",
            f"{year}年{month}月",
            f"{year}-{month:02}-{day:02}",
            f"{year}/{month}/{day}",
            f"{year}.{month}.{day}",
            "".join(_NUMERALS[int(each)] for each in str(year)) + "年",
            f"{_in_words(month)}月{_in_words(day)}日",
            rng.choice(WORDS["days"]),
            self._weekday(),
            f"{month}月{day}日{rng.choice(['上午', '下午', '晚上'])}{rng.randint(1, 12)}点",
        ]
        return rng.choice(forms)

    def _year(self) -> str:
        return str(self._rng.randint(1930, 2026))

    def _weekday(self) -> str:
        return self._rng.choice(["周", "星期", "下周", "礼拜", "上周"]) + self._rng.choice("一二三四五六")

    def _zip(self) -> str:
        return f"{self._rng.randint(100000, 859999)}"

    def _nationality(self) -> str:
        return self._rng.choice(self._nrp)

    def _phone(self) -> str:
        return f"1{self._rng.choice('3578')}{self._rng.randint(10**8, 10**9 - 1)}"

    def _id(self) -> str:
        rng = self._rng
        born = f"{rng.randint(1950, 2010)}{rng.randint(1, 12):02}{rng.randint(1, 28):02}"
        return f"{rng.randint(110101, 659001)}{born}{rng.randint(0, 9999):04}"

    def _card(self) -> str:
        return f"62{self._rng.randint(10**16, 10**17 - 1)}"

    def _email(self) -> str:
        return f"user{self._rng.randint(1, 9999)}@example.com"

    def _numeral(self, number: int) -> str:
        return str(number)


_TYPES = {
    "person": "PERSON",
    "surname": "PERSON",
    "org": "ORGANIZATION",
    "city": "GPE",
    "address": "STREET_ADDRESS",
    "street": "STREET_ADDRESS",
    "age": "AGE",
    "date": "DATE_TIME",
    "year": "DATE_TIME",
    "weekday": "DATE_TIME",
    "zip": "ZIP_CODE",
    "nationality": "NRP",
    "phone": None,
    "id": None,
    "card": None,
    "email": None,
}


def fill_chinese(templates: list[str], times: int, seed: int) -> Iterator[Row]:
    """Each template `times` over; the same seed gives the same rows."""
    rng = random.Random(seed)
    values = Values(rng)
    for template in templates:
        for _ in range(times):
            yield _filled(template.replace("{nrp}", "{nationality}"), values)


def possible_spans(text: str) -> tuple[Labelled, ...]:
    """What in a text in which nobody looked for places, dates and organisations may be one."""
    units = split_units(text)
    found = []
    for begin, end, bits in zip(units.begin, units.end, units.bits.tolist(), strict=True):
        found += [Labelled(kind, begin, end) for kind, marks in _KNOWN_AS.items() if bits & marks]
    return tuple(found)


def fit_chinese(rows: list[Row], calibration: list[Row], choices: Choices) -> dict[str, Array]:
    """The arrays of the file."""
    examples = [example for row in rows if (example := _example(row)) is not None]
    tagger = fit(lambda: FirstLayer(choices.hidden), examples, choices)
    arrays = _arrays(tagger)

    def read(row: Row) -> tuple[list[int], list[int], Floats] | None:
        example, units = _example(row), split_units(row.text)
        return (
            None if example is None else (units.begin, units.end, tagger.likelihoods(example.inputs(False)))
        )

    by = shifts(read_rows(calibration, read))
    print(f"added to logits of Chinese: {by}", flush=True)
    return arrays | {"han_out_bias": shifted(arrays["han_out_bias"], by)}


class FirstLayer(nn.Module):
    """See `radixway.semantics.guard.pii.chinese_tagger.ChineseTagger`."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, hidden)
        self.pairs = nn.Embedding(PAIRS, PAIR_SIZE)
        self.mix = nn.Linear(PAIR_SIZE, hidden, bias=False)
        self.features = nn.Linear(len(FEATURES), hidden)
        nn.init.normal_(self.characters.weight, std=0.05)
        nn.init.normal_(self.pairs.weight, std=0.05)

    def forward(self, characters: Tensor, pairs: Tensor, features: Tensor) -> Tensor:
        seen = self.characters(characters), self.mix(self.pairs(pairs))
        if self.training:  # so that what the marks say is learnt beside what the characters do
            seen = tuple(
                each * (torch.rand(len(each), 1) > share)
                for each, share in zip(seen, (0.2, 0.5), strict=True)
            )
        return seen[0] + seen[1] + self.features(features)  # type: ignore[no-any-return]

    def arrays(self) -> dict[str, Array]:
        """By the names they have in the file; tables in 8 bits."""
        found: dict[str, Array] = {}
        for name, table in (("characters", self.characters), ("pairs", self.pairs)):
            weight = table.weight.detach().numpy()
            scale = np.abs(weight).max(axis=0) / 127
            found |= {
                f"han_{name}": np.round(weight / scale).astype(np.int8),
                f"han_{name}_scale": scale.astype(np.float32),
            }
        found["han_mix"] = self.mix.weight.detach().T.numpy().astype(np.float16)
        found["han_features"] = self.features.weight.detach().T.numpy().astype(np.float16)
        found["han_bias"] = self.features.bias.detach().numpy()
        return found


def _arrays(tagger: Tagger) -> dict[str, Array]:
    assert isinstance(tagger.first, FirstLayer)
    return tagger.first.arrays() | tagger.convolutions.arrays("han")


def _example(row: Row) -> Example | None:
    units = split_units(row.text)
    if not len(units):
        return None
    words = WordSpans(np.arange(len(units)), np.array(units.begin, np.int32), np.array(units.end, np.int32))
    features = feature_matrix(units.bits, len(FEATURES))

    def inputs(_: bool) -> tuple[Array, ...]:
        return units.characters, units.pairs, features

    return Example(allowed_tags(row, words), row.weight, inputs)


def _filled(template: str, values: Values) -> Row:
    escaped = template.replace("{{", _OPEN).replace("}}", _CLOSE)
    text, spans, at = "", [], 0
    for slot in _SLOT.finditer(escaped):
        text += escaped[at : slot.start()]
        kind, value = values.of(slot[1])
        if kind:
            spans.append(Labelled(kind, len(text), len(text) + len(value)))
        text += value
        at = slot.end()
    text = (text + escaped[at:]).replace(_OPEN, "{").replace(_CLOSE, "}")
    return Row(text, tuple(spans), "authored_zh", template)


def _in_words(number: int) -> str:
    """Up to 99."""
    tens, ones = divmod(number, 10)
    head = "" if not tens else "十" if tens == 1 else f"{_NUMERALS[tens]}十"
    return head + (_NUMERALS[ones] if ones or not tens else "")
