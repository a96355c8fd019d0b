"""Everything that chats need, put together from the configuration."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.accounts import Accounts
from radixway.chat.answers import Answers
from radixway.chat.background import beside
from radixway.chat.budgets import Budget, Spending
from radixway.chat.chats import Chats
from radixway.chat.completions import Completions, Road
from radixway.chat.credentials import Credentials
from radixway.chat.database import Database
from radixway.chat.ends import EndedAnswer, Ends
from radixway.chat.feedback import Feedback
from radixway.chat.histories import Histories
from radixway.chat.jobs import Jobs
from radixway.chat.keys import Keys
from radixway.chat.limits import Limits
from radixway.chat.login import Logins
from radixway.chat.messages import Messages
from radixway.chat.metrics import AnswerMetrics
from radixway.chat.migrations import migrate
from radixway.chat.model_configs import ModelConfig, ModelConfigs, published
from radixway.chat.pace import Pace
from radixway.chat.plugins import Chains, Plugins
from radixway.chat.portable import Imports
from radixway.chat.privacy import Export, Forgetting, Forgotten, Scrubber
from radixway.chat.pull import Sessions
from radixway.chat.push import PushWorkers
from radixway.chat.rates import Rate
from radixway.chat.safety import Screen
from radixway.chat.search import Search
from radixway.chat.secrets import Secrets, read_or_make
from radixway.chat.shared import sharing
from radixway.chat.shares import Shares
from radixway.chat.standings import Standings
from radixway.chat.tags import Tags
from radixway.chat.titles import Titler, Titles
from radixway.chat.turns import Turns
from radixway.chat.webhooks.room import HookRoom
from radixway.chat.workers import Workers
from radixway.config import ChatSection, ConfigError

log = logging.getLogger(__name__)


class ChatRoom:
    """Works while `running()`."""

    def __init__(
        self,
        config: ChatSection,
        home: Path,
        road: Road,
        served: Callable[[], Iterable[str]],
        *,
        clock: Callable[[], float] = time.time,
        least_priority: int = -1,
        screen: Screen | None = None,
    ) -> None:
        """`home`: for the database and the secrets. `served`: names of models that `road` has workers for.
        `least_priority`: of requests that stand behind all others on that road. `screen`: judges questions.

        Raises ConfigError.
        """
        self.config = config
        self.screen = screen
        self.database = database_of(config, home)
        self.secrets = secrets_of(home, config)
        self.clock = clock
        self.hooks = HookRoom(config.webhooks, self.database, self.secrets, clock)
        limits = config.limits
        self.ends = Ends()
        self.ends.told.append(self.hooks.outbox.answer_ended)
        budget = None
        if limits.tokens_per_user is not None:
            budget = Budget(limits.tokens_per_user, limits.tokens_per_user_s)
            self.ends.told.append(Spending(budget, clock))
        self.messages = Messages(
            self.database,
            clock,
            Limits(
                limits.at_once,
                limits.queue,
                limits.messages_per_chat,
                limits.message_characters,
                Rate(limits.messages_per_user, limits.per_s),
                tokens=limits.tokens_per_chat,
                budget=budget,
            ),
            self.ends,
            first_words=config.titles != "off",
        )
        if config.histories_mb:
            most_bytes = int(config.histories_mb * (1 << 20))
            self.messages.histories = Histories(
                self.database, most_bytes=most_bytes, kept_s=config.histories_kept_s
            )
        self.accounts = Accounts(self.database, clock, self.hooks.outbox)
        self.chats = Chats(self.database, clock, self.hooks.outbox)
        self.feedback = Feedback(self.database, clock)
        self.workers = Workers(self.database, clock)
        self.keys = Keys(self.database, clock)
        self.credentials = Credentials(self.secrets, self.database, clock)
        self.logins = Logins(
            config.login, self.secrets, self.database, clock, self.accounts, self.credentials
        )
        self.jobs = Jobs(
            self.database,
            clock,
            lease_s=config.lease_s,
            most_attempts=config.attempts,
            restarts=config.after_words == "restart",
            ends=self.ends,
        )
        self.standings = Standings(self.jobs, clock)
        try:
            redis = None if config.redis is None else config.redis.get_secret_value()
            tokens, wake, self.shared = sharing(self.database, redis, kept_s=config.kept_s)
        except ValueError:
            raise ConfigError("chat.redis: a URL is redis://HOST:PORT, rediss:// or unix://PATH") from None
        self.answers = Answers(self.messages, self.jobs, tokens, wake, clock, screen=screen)
        known = [ModelConfig(**model.model_dump()) for model in config.models]
        known += published()[0] if config.published_models else ()
        self.models = ModelConfigs(known, served)
        self.turns = Turns(self.database, self.messages, self.answers, self.models, waits_s=config.waits_s)
        self.imports = Imports(
            self.database,
            Limits(messages=limits.messages_per_chat, characters=limits.message_characters),
            self.hooks.outbox,
        )
        self.pace = Pace(self.database, self.jobs, clock)
        self.tags = Tags(self.database)
        self.search = Search(self.database)
        self.shares = Shares(self.database, self.messages, clock)
        self.export = Export(self.database, clock)
        self._scrubber = Scrubber(self.database)
        self.forgetting = Forgetting(self.database, self.answers, self._scrubber, clock, self.hooks.outbox)
        self._served = served
        self._titler = self._titles(road, least_priority) if config.titles == "model" else None
        self.plugins = Plugins(config.plugins, config.mcp_servers, clock)
        self.forgetting.also.append(self._forget_histories)
        chains = Chains(self.plugins, config.plugins)
        say = Completions(road, chains).say
        self._push = PushWorkers(self.answers, say, at_once=config.pushed_at_once)
        self.sessions = Sessions(self.database, clock, self.answers, lease_s=config.lease_s)
        self.models.pulled = lambda: self.sessions.models.values()
        self.sessions.on_change.append(self.look_for_workers)
        self._seen: dict[str, ModelConfig] = {}
        """Queues of workers that fetch, here now or not: what they leave behind is not forgotten."""

    def _titles(self, road: Road, priority: int) -> Titler:
        titles = Titles(self.database, self.clock, self.hooks.outbox)
        self.ends.told.append(titles.answer_ended)
        model = self.config.title_model
        return Titler(
            titles, self.messages, self.jobs, road, self._served, self.clock, model=model, priority=priority
        )

    def count_ends(self, metrics: AnswerMetrics) -> None:
        """From now on."""

        async def ended(write: AsyncConnection, answer: EndedAnswer) -> None:
            self.database.after(write, partial(metrics.ended, answer))

        self.ends.told.append(ended)
        if self.messages.histories is not None:
            self.messages.histories.outcomes = metrics.histories

    async def _forget_histories(self, forgotten: Forgotten) -> None:
        if self.messages.histories is not None:
            self.messages.histories.forget(forgotten.chats)

    def look_for_workers(self) -> None:
        """Workers have come or gone: the gateway's own answer for a model as long as none comes to fetch."""
        pulled = self.sessions.models
        self._seen |= pulled
        served = set(self._served())
        configs = [config for name in served if (config := self.models.find(name)) is not None]
        configs += [config for config in self._seen.values() if config.model_id in served]
        self._push.serve(config.compat_hash for config in configs if config.compat_hash not in pulled)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises ConfigError: the database does not answer."""
        try:
            await migrate(self.database)
        except Exception as error:  # drivers raise what they like
            await self.database.aclose()
            raise ConfigError(f"chat.database: {type(error).__name__}: {error}") from error
        keys = [key.get_secret_value() for key in self.config.debug_api_keys]
        await self.workers.let_in("Debug API Key", keys)
        try:
            async with self.plugins.running(), self.answers.running(), self.sessions.running():
                works = [self._push.run, self.hooks.deliverer.run, self.database.watch_problems]
                works += [] if self._titler is None else [self._titler.run]
                async with beside(*works):
                    self.look_for_workers()
                    yield
        finally:
            await self._scrubber.aclose()
            await self.database.aclose()


def database_of(config: ChatSection, home: Path) -> Database:
    """The configured one, or a file in `home`. Raises ConfigError."""
    home.mkdir(parents=True, exist_ok=True)
    given = config.database
    try:
        return Database(f"sqlite:///{home / 'chats.db'}" if given is None else given.get_secret_value())
    except ValueError as error:
        raise ConfigError(f"chat.database: {error}") from None


def secrets_of(home: Path, config: ChatSection) -> Secrets:
    """Those of the configuration, the rest from `home`, made now where there are none. Raises ConfigError."""
    chosen = {name: secret.get_secret_value() for name, secret in config.secrets if secret is not None}
    if len(chosen) == len(Secrets.__slots__):
        return Secrets(**chosen)
    path = home / "chat-secrets.json"
    try:
        found, made = read_or_make(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"chat: {error}") from error
    if made:
        log.warning("chats: secrets were made, the root token among them: %s", path)
    return replace(found, **chosen)
