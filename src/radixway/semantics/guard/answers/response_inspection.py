"""Inspection of one reply: the judges of its texts, and what they must know of its request."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property

from radixway.core.config.guard import AnswersConfig
from radixway.core.pipeline import BadRequest, PersonalDataFinder, Request
from radixway.semantics.guard.answers.exfiltration import ExfiltrationJudge, extract_hosts
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.moderation import ModerationBatches, ModerationClient
from radixway.semantics.guard.answers.personal_data import PersonalDataJudge
from radixway.semantics.guard.answers.system_prompt import SecretIndex, SystemPromptJudge, secret_index
from radixway.semantics.guard.answers.text_view import TextJudge, TextView
from radixway.semantics.guard.answers.watched_text import WatchedText
from radixway.semantics.guard.passages import TextPassage, read_texts
from radixway.semantics.guard.redaction import PlaceholderRestorer, PlaceholderVault

_NO_SECRET = frozenset({"tools", "functions", "response_format"})
_HOST = re.compile(r"[\w.\-:\[\]]+")
"""Matches hosts as browsers accept them."""


class ResponseInspection:
    """Builds the judges for the texts of one reply."""

    def __init__(
        self,
        section: AnswersConfig,
        request: Request,
        finder: PersonalDataFinder,
        report: AnswerReport,
        vault: PlaceholderVault | None = None,
        moderator: ModerationClient | None = None,
    ) -> None:
        """`vault`: the placeholders of `request`, to be turned back. `moderator`: the one of `section`."""
        self._section = section
        self._request = request
        self._finder = finder
        self._report = report
        self._vault = vault
        self._moderator = moderator

    @property
    def longest_wait_s(self) -> float:
        """The seconds that a text waits for the end of its sentence."""
        return self._section.hold_back.milliseconds / 1e3

    def watch_text(self, where: str, *, in_json: bool = False) -> WatchedText:
        """Begin the text of the reply that stands at `where`; `in_json`: it is JSON."""
        restorer = PlaceholderRestorer(self._vault, in_json=in_json) if self._vault else None
        hold_back = self._section.hold_back.characters
        batches = ModerationBatches(self._moderator, hold_back) if self._moderator else None
        view = TextView(where, in_json=in_json)
        return WatchedText(view, self._judges(hold_back), self._report, restorer, batches)

    def _judges(self, hold_back: int) -> Iterator[TextJudge]:
        section = self._section
        if section.pii.action != "off":
            yield PersonalDataJudge(section.pii, self._finder, self._is_known, hold_back)
        if section.system_prompt.action != "off" and self._secret_index is not None:
            yield SystemPromptJudge(section.system_prompt, self._secret_index, self._known_ngrams, hold_back)
        if (rules := section.exfiltration).action != "off":
            yield ExfiltrationJudge(rules, self._is_host_allowed, lambda: self._conversation_text, hold_back)

    @cached_property
    def _passages(self) -> list[TextPassage]:
        try:
            return read_texts(self._request.body).passages
        except BadRequest:  # a worker that answers has understood it otherwise
            return []

    @cached_property
    def _conversation_text(self) -> str:
        return "\n".join(passage.text for passage in self._passages).lower()

    def _is_known(self, text: str) -> bool:
        return self._section.pii.may_repeat and text.lower() in self._conversation_text

    @cached_property
    def _secret_index(self) -> SecretIndex | None:
        """The index of what the system says; the tools' descriptions are no secret."""
        secret = "\n".join(
            passage.text
            for passage in self._passages
            if passage.speaker == "system" and passage.place[0] not in _NO_SECRET
        )
        return secret_index(secret) if secret else None

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
