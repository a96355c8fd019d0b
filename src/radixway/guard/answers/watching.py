"""What is looked for in the texts of one reply, and what of its request must be known for that."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b

from radixway.config.guard.answers import AnswersSection
from radixway.guard.answers.addresses import hosts_in
from radixway.guard.answers.exfiltration import ExfiltrationJudge
from radixway.guard.answers.judging import Judge, View
from radixway.guard.answers.moderation import Batches, Moderator
from radixway.guard.answers.overlap import SecretIndex
from radixway.guard.answers.personal_data import PersonalDataJudge
from radixway.guard.answers.report import Report
from radixway.guard.answers.system_prompt import SystemPromptJudge
from radixway.guard.answers.text import WatchedText
from radixway.guard.placeholders import Vault
from radixway.guard.texts import Passage, read_texts
from radixway.pipeline import BadRequest, PersonalDataFinder, Request

_MOST_INDICES = 64
_HOST = re.compile(r"[\w.\-:\[\]]+")
"""What may stand for a host; browsers take nothing else."""


class Indices:
    """Of the latest system prompts, by digest: many requests have the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, SecretIndex] = OrderedDict()

    def of(self, secret: str) -> SecretIndex:
        """Built if it is not kept."""
        digest = blake2b(secret.encode("utf-8", "surrogatepass")).digest()
        index = self._kept.get(digest)
        if index is None:
            index = self._kept[digest] = SecretIndex(secret)
            if len(self._kept) > _MOST_INDICES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(digest)
        return index


@dataclass(slots=True)
class WatchingParts:
    """What all replies are judged with."""

    finder: PersonalDataFinder | None = None
    moderators: Sequence[Moderator] = ()
    indices: Indices = field(default_factory=Indices)


class Watching:
    """Of one reply."""

    def __init__(
        self,
        section: AnswersSection,
        parts: WatchingParts,
        request: Request,
        vault: Vault | None,
        report: Report,
    ) -> None:
        self._section = section
        self._parts = parts
        self._request = request
        self._vault = vault
        self._report = report

    @property
    def longest_wait_s(self) -> float:
        """For the end of a sentence."""
        return self._section.hold_back.milliseconds / 1e3

    def begin(self, where: str, *, in_json: bool = False) -> WatchedText:
        """A text of the reply begins."""
        restorer = self._vault.restorer(in_json=in_json) if self._vault else None
        return WatchedText(
            View(where, in_json=in_json), self._judges(), self._report.failed, restorer, self._batches()
        )

    def _judges(self) -> Sequence[Judge]:
        section, hold_back = self._section, self._section.hold_back.characters
        judges: list[Judge] = []
        if section.pii.action != "off" and self._parts.finder is not None:
            judges.append(PersonalDataJudge(section.pii, self._parts.finder, self._is_known, hold_back))
        if section.system_prompt.action != "off" and self._index is not None:
            judges.append(SystemPromptJudge(section.system_prompt, self._index, self._shared, hold_back))
        if section.exfiltration.action != "off":
            judges.append(ExfiltrationJudge(section.exfiltration, self._allows, self._all_said, hold_back))
        return judges

    def _batches(self) -> Batches | None:
        asked = self._section.moderation
        moderator = next((each for each in self._parts.moderators if each.section is asked), None)
        return None if moderator is None else Batches(moderator, self._section.hold_back.characters)

    @cached_property
    def _passages(self) -> list[Passage]:
        try:
            return read_texts(self._request.body).passages
        except BadRequest:  # a worker that answers has understood it otherwise
            return []

    @cached_property
    def _said(self) -> str:
        return "\n".join(passage.text for passage in self._passages).lower()

    def _all_said(self) -> str:
        return self._said

    def _is_known(self, text: str) -> bool:
        return self._section.pii.may_repeat and text.lower() in self._said

    @cached_property
    def _index(self) -> SecretIndex | None:
        secret = "\n".join(_prompts(self._passages))
        return self._parts.indices.of(secret) if secret else None

    @cached_property
    def _shared(self) -> frozenset[str]:
        assert self._index is not None
        others = (passage.text for passage in self._passages if passage.speaker == "user")
        return self._index.shared_with(others)

    @cached_property
    def _named(self) -> frozenset[str]:
        named_by = self._section.exfiltration.named_by
        texts = [passage.text for passage in self._passages if passage.speaker in named_by]
        return frozenset(host for text in texts for host in hosts_in(text))

    def _allows(self, host: str) -> bool:
        if not _HOST.fullmatch(host):
            return False
        for allowed in self._section.exfiltration.hosts:
            name = allowed.lower()
            if fnmatchcase(host, name) or (name.startswith("*.") and host == name[2:]):
                return True
        return host in self._named


def _prompts(passages: Sequence[Passage]) -> list[str]:
    """What the system says to the model, but for the tools' descriptions, which are no secret."""
    return [
        passage.text
        for passage in passages
        if passage.speaker == "system" and passage.place[0] not in ("tools", "functions", "response_format")
    ]
