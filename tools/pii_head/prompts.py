"""Whole prompts, filled with names of more cultures than Faker knows in Latin letters."""

import random
import re
from collections.abc import Callable, Iterator

from pii_head import chinese, generate
from pii_head.authored import authored_templates, vocabulary
from pii_head.rows import Labelled, Row, merged, possible_spans, template_group
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.chinese_tagger import has_chinese
from radixway.semantics.guard.pii.gazetteers import read_list
from radixway.semantics.guard.pii.sequence_tagger import join_address_parts

_PART = re.compile(r"\{(\w+)\}|\[\[([A-Z_]+)\|([^\]]+)\]\]")
_OPEN, _CLOSE = "\ue000", "\ue001"
_NAMES = vocabulary("en", "names")
_CULTURES = sorted({kind.rpartition("_")[0] for kind in _NAMES})
_FAITHS = ("ism", "ity", "islam", "rastafari")
_NO_PLURAL = ("s", "sh", "ch", "ese", "x", "men")


def prompts(times: int, seed: int) -> Iterator[Row]:
    """English ones, `times` over each; some are written small altogether."""
    rng = random.Random(seed)
    values = EnglishValues(rng)
    for template in authored_templates("en", "prompts"):
        for _ in range(times):
            text, spans = _filled(template, values.of)
            if rng.random() < 0.15 and len(text.lower()) == len(text):
                text = text.lower()
            found = [PersonalDataSpan(each.type, each.begin, each.end, 1.0) for each in spans]
            whole = [Labelled(each.type, each.begin, each.end) for each in join_address_parts(found, text)]
            yield Row(text, merged(whole, text), "prompts_en", template_group(template), weight=2.0)


def prompts_that_tempt() -> Iterator[Row]:
    """English, naming nobody."""
    for text in authored_templates("en", "free"):
        yield Row(text, (), "free/prompts_en", text, possible=possible_spans(text), weight=3.0)


def chinese_prompts(times: int, seed: int) -> Iterator[Row]:
    """Chinese ones."""
    values = ChineseValues(random.Random(seed))
    for template in authored_templates("zh", "prompts"):
        for _ in range(times):
            text, spans = _filled(template, values.of)
            yield Row(text, tuple(spans), "prompts_zh", template, weight=2.0)


def chinese_prompts_that_tempt() -> Iterator[Row]:
    """Chinese, naming nobody."""
    for text in authored_templates("zh_more", "free"):
        yield Row(text, (), "free/prompts_zh", text, possible=chinese.possible_spans(text), weight=15.0)


class EnglishValues(generate.Values):
    """Half of the names are Faker's."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        groups = [generate.written_large(each) for each in read_list("groups") if not has_chinese(each)]
        self._faiths = [each for each in groups if each.lower().endswith(_FAITHS)]
        self._peoples = [each for each in groups if each not in self._faiths]
        self._organisations = authored_templates("en", "organisations")

    def of(self, slot: str) -> tuple[str | None, str]:
        """Raises KeyError for a slot that there is not."""
        kind = _MORE.get(slot)
        if kind is None:
            return super().of(slot)
        value: str = getattr(self, f"_{slot}")()
        return kind or None, value

    def _culture(self) -> str:
        return self._rng.choice(_CULTURES)

    def _person(self) -> str:
        if self._rng.random() < 0.4:
            return super()._person()
        culture = self._culture()
        if self._rng.random() < 0.1:
            culture, other = self._culture(), culture
            return f"{self._of(culture, 'given')} {self._of(other, 'last')}"
        given, last = self._of(culture, "given"), self._of(culture, "last")
        family_first = culture in ("chinese", "korean", "japanese") and self._rng.random() < 0.4
        return f"{last} {given}" if family_first else f"{given} {last}"

    def _of(self, culture: str, kind: str) -> str:
        return self._rng.choice(_NAMES[f"{culture}_{kind}"])

    def _first(self) -> str:
        return super()._first() if self._rng.random() < 0.4 else self._of(self._culture(), "given")

    def _last(self) -> str:
        return super()._last() if self._rng.random() < 0.4 else self._of(self._culture(), "last")

    def _lasts(self) -> str:
        last = self._last()
        return last + ("es" if last.endswith(("s", "x", "z", "ch")) else "s")

    def _last_first(self) -> str:
        return f"{self._last()}, {self._first()}"

    def _initialled(self) -> str:
        return f"{self._initial()}. {self._last()}"

    def _initial(self) -> str:
        return self._rng.choice("ABCDEFGHJKLMNPRSTW")

    def _org(self) -> str:
        if self._rng.random() < 0.4:
            return super()._org()
        return self._rng.choice(self._organisations).format(self._city(), last=self._last())

    def _group(self) -> str:
        return self._nationality() if self._rng.random() < 0.3 else self._rng.choice(self._peoples)

    def _groups(self) -> str:
        group = self._group()
        return group if group.endswith(_NO_PLURAL) else group + "s"

    def _faith(self) -> str:
        return self._rng.choice(self._faiths)

    def _time(self) -> str:
        rng = self._rng
        hour, minute = rng.randint(1, 12), rng.choice([0, 0, 15, 30, 45])
        forms = (
            f"{hour}:{minute:02} {rng.choice(['am', 'pm', 'AM', 'PM'])}",
            f"{hour}{rng.choice(['am', 'pm'])}",
            f"{hour + 11}:{minute:02}",
        )
        return rng.choice(forms)


_MORE = {
    "lasts": "PERSON",
    "last_first": "PERSON",
    "initialled": "PERSON",
    "initial": "",
    "group": "NRP",
    "groups": "NRP",
    "faith": "NRP",
    "time": "DATE_TIME",
}


class ChineseValues(chinese.Values):
    """Given names alone, and groups beside nationalities."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._nrp += [entry for entry in read_list("groups") if has_chinese(entry)]

    def of(self, slot: str) -> tuple[str | None, str]:
        """Raises KeyError for a slot that there is not."""
        if slot in ("given", "given1"):
            count = 1 if slot == "given1" else self._rng.choice([2, 2, 2, 3])
            name = "".join(self._given() for _ in range(min(count, 2)))
            return "PERSON", (self._surname() + name if count == 3 else name)
        if slot == "number":
            return None, str(self._rng.randint(1000, 9_999_999))
        return super().of("nationality" if slot == "nrp" else slot)


def _filled(template: str, value_of: Callable[[str], tuple[str | None, str]]) -> tuple[str, list[Labelled]]:
    escaped = template.replace("{{", _OPEN).replace("}}", _CLOSE)
    text, at = "", 0
    spans: list[Labelled] = []
    for part in _PART.finditer(escaped):
        text += escaped[at : part.start()]
        kind, value = value_of(part[1]) if part[1] else (part[2], part[3])
        if kind:
            begin = len(text)
            if kind == "PERSON" and spans and spans[-1].type == kind and text[spans[-1].end :] == " ":
                begin = spans.pop().begin  # a first name and its surname are one
            spans.append(Labelled(kind, begin, len(text) + len(value)))
        text += value
        at = part.end()
    return (text + escaped[at:]).replace(_OPEN, "{").replace(_CLOSE, "}"), spans
