"""The safety screen of chats: a safety service, or the guard's classifiers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from radixway.chat.safety import (
    SafetyScreen,
    SafetyService,
    SafetyUnavailableError,
    SafetyVerdict,
    label_findings,
)
from radixway.core.circuit_breaker import ConsecutiveFailureBreaker
from radixway.core.component import Component
from radixway.core.config import Config, ConfigError
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry import MetricsRegistry

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.guard.text_scanner import TextScanner

log = logging.getLogger(__name__)


class ChatSafetyScreening(Component):
    """The screen of a gateway, as it is configured. Belongs to one event loop."""

    name = "chat_safety"

    def __init__(
        self,
        config: Config,
        metrics: MetricsRegistry,
        encoders: EncoderService | None,
        scan: Callable[[EncoderService], TextScanner],
    ) -> None:
        """`encoders`: the gateway's, where it has one. `scan`: reads texts with the guard's classifiers.

        Raises ConfigError: screening is on and the packages for it are missing.
        """
        self._section = section = config.chat.safety
        self._trying: list[asyncio.Task[None]] = []
        outcomes = metrics.counter(
            "radixway_chat_safety", "Questions in chats that were judged for safety", "outcome"
        )
        self._judge: SafetyService | GuardJudge
        if section.url is not None:
            breaker = ConsecutiveFailureBreaker(section.failures, section.rest_s)
            self._judge = SafetyService(section.url, timeout_s=section.timeout_s, breaker=breaker)
        else:
            if section.is_on and find_spec("numpy") is None:
                raise ConfigError("chat.safety.level needs radixway[semantic], or chat.safety.url")
            self._judge = GuardJudge(config, encoders, scan)
        self.screen = SafetyScreen(section, self._judge, lambda outcome: outcomes(outcome).inc())

    def describe(self) -> dict[str, Any]:
        """Describe the screen for `/health`; empty where nothing is judged."""
        return self.screen.describe() if self._section.is_on else {}

    async def start(self) -> None:
        """If screening is on, check the judge now rather than with the first question."""
        if self._section.is_on:
            error = self._section.on_error
            log.info("chat.safety: level %d; on_error is %s", self._section.level, error)
            self._trying = [asyncio.create_task(self._check_judge())]

    async def stop(self) -> None:
        """Close the judge."""
        await cancel_tasks(self._trying)
        await self.screen.aclose()

    async def _check_judge(self) -> None:
        if not await self._judge.is_healthy():
            log.warning("chat.safety: questions cannot be judged yet; on_error is %s", self._section.on_error)


class GuardJudge:
    """A `Judge` that asks the guard's classifiers, which are opened with the first question."""

    def __init__(
        self, config: Config, encoders: EncoderService | None, scan: Callable[[EncoderService], TextScanner]
    ) -> None:
        self._config = config
        self._encoders = encoders
        self._own: EncoderService | None = None
        self._scan_with = scan
        self._opened: tuple[EncoderService, TextScanner] | None = None
        self._opening = asyncio.Lock()

    async def judge(self, turns: Sequence[str], level: int) -> SafetyVerdict:
        """Judge the last of `turns` for personal data, all for attacks. Raises SafetyUnavailableError."""
        from radixway.semantics.encoders import encode_once
        from radixway.semantics.guard.passages import TextPassage
        from radixway.semantics.guard.pii.pii_head import LAYERS
        from radixway.semantics.guard.text_scanner import ScanFailedError

        encoders, scan = await self._ensure_open()
        passages = [TextPassage(text, "user", ("messages", at)) for at, text in enumerate(turns)]
        try:
            async with asyncio.timeout(self._config.chat.safety.timeout_s):
                with encode_once(encoders, LAYERS):
                    attacks, personal_data = await asyncio.gather(
                        scan.find_attacks(passages),
                        scan.find_personal_data(passages[-1:]),
                        return_exceptions=True,
                    )
        except TimeoutError:
            raise SafetyUnavailableError("the guard: no verdict in time") from None
        failures = [outcome for outcome in (attacks, personal_data) if isinstance(outcome, BaseException)]
        judged = attacks.judged if isinstance(attacks, ScanFailedError) else attacks
        found = personal_data.found if isinstance(personal_data, ScanFailedError) else personal_data
        if isinstance(judged, BaseException) or isinstance(found, BaseException):
            raise next(outcome for outcome in failures if not isinstance(outcome, ScanFailedError))
        verdict = label_findings(
            [finding.attack for finding in judged if finding.passage == passages[-1]],
            [finding.found for finding in found],
            scan.judge.threshold,
            scan.finder.threshold,
        )
        if failures and not verdict.is_triggered(
            level
        ):  # what has a known form or wording is found all the same
            raise SafetyUnavailableError("the guard could not read it")
        return verdict

    async def is_healthy(self) -> bool:
        """Return whether a sample text can be judged: a failure is known before a question needs it."""
        try:
            await self.judge(["Nothing to be found here."], 3)
        except SafetyUnavailableError:
            return False
        return True

    async def aclose(self) -> None:
        """Close the encoder that was started here."""
        if self._own is not None:
            await self._own.aclose()
            self._own = None

    async def _ensure_open(self) -> tuple[EncoderService, TextScanner]:
        """Wait for the encoder without a deadline: loading can take long."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._create_scan()
            return self._opened

    async def _create_scan(self) -> tuple[EncoderService, TextScanner]:
        try:
            await asyncio.to_thread(_import_dependencies)  # half a second of a core's time
        except ImportError as error:
            raise SafetyUnavailableError(f"the guard needs radixway[semantic]: {error}") from None
        from radixway.semantics.encoders import EncoderError, start_service

        encoders = self._encoders
        if encoders is None:
            encoders = self._own = start_service(self._config.encoders)
        with suppress(
            EncoderError
        ):  # then known wordings and forms are looked for, and every question says so
            await encoders.wait_until_ready()
        return encoders, self._scan_with(encoders)


def _import_dependencies() -> None:
    import radixway.semantics.encoders
    import radixway.semantics.guard.pii.pii_head
    import radixway.semantics.guard.text_scanner  # noqa: F401
