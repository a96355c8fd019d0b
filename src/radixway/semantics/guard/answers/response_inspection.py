"""Inspection of one reply: the judges of its texts, and what they must know of its request."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b

from radixway.core.config.guard import AnswersConfig
from radixway.core.pipeline import BadRequest, PersonalDataFinder, Request
from radixway.semantics.guard.answers.exfiltration import ExfiltrationJudge
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.moderation import ModerationBatches, ModerationClient
from radixway.semantics.guard.answers.personal_data import PersonalDataJudge
from radixway.semantics.guard.answers.secret_overlap import SecretIndex
from radixway.semantics.guard.answers.system_prompt import SystemPromptJudge
from radixway.semantics.guard.answers.text_view import TextJudge, TextView
from radixway.semantics.guard.answers.watched_text import WatchedText
from radixway.semantics.guard.answers.web_address import extract_hosts
from radixway.semantics.guard.passages import TextPassage, read_texts
from radixway.semantics.guard.placeholders import PlaceholderVault

_MOST_INDICES = 64
_HOST = re.compile(r"[\w.\-:\[\]]+")
"""What may stand for a host; browsers take nothing else."""


class SecretIndexCache:
    """Of the latest system prompts, by digest: many requests have the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, SecretIndex] = OrderedDict()

    def index_of(self, secret: str) -> SecretIndex:
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
class InspectionTools:
    """What all replies are judged with."""

    finder: PersonalDataFinder | None = None
    moderators: Sequence[ModerationClient] = ()
    indices: SecretIndexCache = field(default_factory=SecretIndexCache)


class ResponseInspection:
    """Of one reply."""

    def __init__(
        self,
        section: AnswersConfig,
        parts: InspectionTools,
        request: Request,
        vault: PlaceholderVault | None,
        report: AnswerReport,
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

    def watch_text(self, where: str, *, in_json: bool = False) -> WatchedText:
        """A text of the reply begins."""
        restorer = self._vault.stream_restorer(in_json=in_json) if self._vault else None
        return WatchedText(
            TextView(where, in_json=in_json),
            self._judges(),
            self._report.report_failure,
            restorer,
            self._batches(),
        )

    def _judges(self) -> Sequence[TextJudge]:
        section, hold_back = self._section, self._section.hold_back.characters
        judges: list[TextJudge] = []
        if section.pii.action != "off" and self._parts.finder is not None:
            judges.append(PersonalDataJudge(section.pii, self._parts.finder, self._is_known, hold_back))
        if section.system_prompt.action != "off" and self._secret_index is not None:
            judges.append(
                SystemPromptJudge(section.system_prompt, self._secret_index, self._known_ngrams, hold_back)
            )
        if section.exfiltration.action != "off":
            judges.append(
                ExfiltrationJudge(
                    section.exfiltration, self._is_host_allowed, self._full_conversation_text, hold_back
                )
            )
        return judges

    def _batches(self) -> ModerationBatches | None:
        asked = self._section.moderation
        moderator = next((each for each in self._parts.moderators if each.section is asked), None)
        return None if moderator is None else ModerationBatches(moderator, self._section.hold_back.characters)

    @cached_property
    def _passages(self) -> list[TextPassage]:
        try:
            return read_texts(self._request.body).passages
        except BadRequest:  # a worker that answers has understood it otherwise
            return []

    @cached_property
    def _conversation_text(self) -> str:
        return "\n".join(passage.text for passage in self._passages).lower()

    def _full_conversation_text(self) -> str:
        return self._conversation_text

    def _is_known(self, text: str) -> bool:
        return self._section.pii.may_repeat and text.lower() in self._conversation_text

    @cached_property
    def _secret_index(self) -> SecretIndex | None:
        secret = "\n".join(_system_prompts(self._passages))
        return self._parts.indices.index_of(secret) if secret else None

    @cached_property
    def _known_ngrams(self) -> frozenset[str]:
        assert self._secret_index is not None
        others = (passage.text for passage in self._passages if passage.speaker == "user")
        return self._secret_index.shared_ngrams(others)

    @cached_property
    def _named_hosts(self) -> frozenset[str]:
        named_by = self._section.exfiltration.named_by
        texts = [passage.text for passage in self._passages if passage.speaker in named_by]
        return frozenset(host for text in texts for host in extract_hosts(text))

    def _is_host_allowed(self, host: str) -> bool:
        if not _HOST.fullmatch(host):
            return False
        for allowed in self._section.exfiltration.hosts:
            name = allowed.lower()
            if fnmatchcase(host, name) or (name.startswith("*.") and host == name[2:]):
                return True
        return host in self._named_hosts


def _system_prompts(passages: Sequence[TextPassage]) -> list[str]:
    """What the system says to the model, but for the tools' descriptions, which are no secret."""
    return [
        passage.text
        for passage in passages
        if passage.speaker == "system" and passage.place[0] not in ("tools", "functions", "response_format")
    ]
