"""Builds the chat service from the configuration."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.accounts import UserAccounts
from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.answer_metrics import AnswerMetrics
from radixway.chat.api_keys import ApiKeyStore
from radixway.chat.background_tasks import run_concurrently
from radixway.chat.chats import ChatStore, ChatTags
from radixway.chat.completion_hooks import CompletionHooks, EndedAnswer
from radixway.chat.conversation_turns import ConversationTurns
from radixway.chat.coordination import make_coordination
from radixway.chat.database import ChatDatabase
from radixway.chat.feedback import AnswerFeedback
from radixway.chat.import_export import ChatImporter
from radixway.chat.job_queue import AnswerJobQueue
from radixway.chat.limits import AnswerRate, BudgetAccounting, ChatLimits, TokenBudget
from radixway.chat.local_completions import LocalCompletions, LocalWorkers, PipelineCall
from radixway.chat.login import LoginService
from radixway.chat.message_search import MessageSearch
from radixway.chat.messages import MessageStore
from radixway.chat.migrations import migrate
from radixway.chat.model_configs import ModelConfigCatalog, ServedModelConfig, load_published
from radixway.chat.plugins import PluginAnswers, PluginRegistry
from radixway.chat.privacy import AccountExport, ErasedIds, FileScrubber, UserErasure
from radixway.chat.pull import WorkerSessions
from radixway.chat.pull.worker_sessions import PullWorkerStore
from radixway.chat.queue_positions import QueuePace, QueuePositions
from radixway.chat.safety import SafetyScreen
from radixway.chat.server_secrets import ServerSecrets, load_or_create_secrets
from radixway.chat.share_links import ShareLinks
from radixway.chat.threads import ThreadCache
from radixway.chat.titles import ChatTitler, TitleJobs
from radixway.chat.user_tokens import TokenIssuer
from radixway.chat.webhooks.deliverer import WebhookService
from radixway.core.config import ChatConfig, ConfigError

log = logging.getLogger(__name__)


class ChatService:
    """The components of chats, put together from the configuration. Works while `running()`."""

    def __init__(
        self,
        config: ChatConfig,
        home: Path,
        pipeline: PipelineCall,
        served: Callable[[], Iterable[str]],
        *,
        clock: Callable[[], float] = time.time,
        least_priority: int = -1,
        screen: SafetyScreen | None = None,
    ) -> None:
        """`home`: for the database and the secrets. `pipeline`: takes chat completions; `served`: names of
        models that it has workers for; `least_priority`: the lowest there. Raises ConfigError.
        """
        self.config = config
        self.safety_screen = screen
        self.database = open_database(config, home)
        self.secrets = load_secrets(home, config)
        self.clock = clock
        self.webhook_service = WebhookService(config.webhooks, self.database, self.secrets, clock)
        limits = config.limits
        self.completion_hooks = CompletionHooks()
        self.completion_hooks.hooks.append(self.webhook_service.outbox.answer_ended)
        budget = None
        if limits.tokens_per_user is not None:
            budget = TokenBudget(limits.tokens_per_user, limits.tokens_per_user_s)
            self.completion_hooks.hooks.append(BudgetAccounting(budget, clock))
        self.messages = MessageStore(
            self.database,
            clock,
            ChatLimits(
                limits.at_once,
                limits.queue,
                limits.messages_per_chat,
                limits.message_characters,
                AnswerRate(limits.messages_per_user, limits.per_s),
                tokens=limits.tokens_per_chat,
                budget=budget,
            ),
            self.completion_hooks,
            first_words=config.titles != "off",
        )
        if config.histories_mb:
            max_bytes = int(config.histories_mb * (1 << 20))
            self.messages.histories = ThreadCache(
                self.database, max_bytes=max_bytes, kept_s=config.histories_kept_s
            )
        self.accounts = UserAccounts(self.database, clock, self.webhook_service.outbox)
        self.chats = ChatStore(self.database, clock, self.webhook_service.outbox)
        self.feedback = AnswerFeedback(self.database, clock)
        self.workers = PullWorkerStore(self.database, clock)
        self.api_keys = ApiKeyStore(self.database, clock)
        self.token_issuer = TokenIssuer(self.secrets, self.database, clock)
        self.logins = LoginService(
            config.login, self.secrets, self.database, clock, self.accounts, self.token_issuer
        )
        self.jobs = AnswerJobQueue(
            self.database,
            clock,
            lease_s=config.lease_s,
            max_attempts=config.attempts,
            restarts=config.after_words == "restart",
            ends=self.completion_hooks,
        )
        self.queue_positions = QueuePositions(self.jobs, clock)
        try:
            redis = None if config.redis is None else config.redis.get_secret_value()
            tokens, wake, self.reconnecting = make_coordination(self.database, redis, kept_s=config.kept_s)
        except ValueError:
            raise ConfigError("chat.redis: a URL is redis://HOST:PORT, rediss:// or unix://PATH") from None
        self.answers = ActiveAnswers(self.messages, self.jobs, tokens, wake, clock, screen=screen)
        known = [ServedModelConfig(**model.model_dump()) for model in config.models]
        known += load_published()[0] if config.published_models else ()
        self.models = ModelConfigCatalog(known, served)
        self.turns = ConversationTurns(
            self.database, self.messages, self.answers, self.models, waits_s=config.waits_s
        )
        self.importer = ChatImporter(
            self.database,
            ChatLimits(messages=limits.messages_per_chat, characters=limits.message_characters),
            self.webhook_service.outbox,
        )
        self.queue_pace = QueuePace(self.database, self.jobs, clock)
        self.tags = ChatTags(self.database)
        self.search = MessageSearch(self.database)
        self.share_links = ShareLinks(self.database, self.messages, clock)
        self.account_export = AccountExport(self.database, clock)
        self._scrubber = FileScrubber(self.database)
        self.user_erasure = UserErasure(
            self.database, self.answers, self._scrubber, clock, self.webhook_service.outbox
        )
        self._served = served
        self._titler = self._make_titler(pipeline, least_priority) if config.titles == "model" else None
        self.plugins = PluginRegistry(config.plugins, config.mcp_servers, clock)
        self.user_erasure.also.append(self._drop_erased_threads)
        chains = PluginAnswers(self.plugins, config.plugins)
        say = LocalCompletions(pipeline, chains).answer_attempt
        self._push = LocalWorkers(self.answers, say, at_once=config.pushed_at_once)
        self.sessions = WorkerSessions(self.database, clock, self.answers, lease_s=config.lease_s)
        self.models.pulled = lambda: self.sessions.models.values()
        self.sessions.on_change.append(self.update_local_queues)
        self._seen: dict[str, ServedModelConfig] = {}
        """Queues of all pull workers so far, so that jobs they left are served."""

    def _make_titler(self, pipeline: PipelineCall, priority: int) -> ChatTitler:
        titles = TitleJobs(self.database, self.clock, self.webhook_service.outbox)
        self.completion_hooks.hooks.append(titles.answer_ended)
        model = self.config.title_model
        return ChatTitler(
            titles,
            self.messages,
            self.jobs,
            pipeline,
            self._served,
            self.clock,
            model=model,
            priority=priority,
        )

    def add_answer_metrics(self, metrics: AnswerMetrics) -> None:
        """Record every end of an answer in `metrics` from now on."""

        async def ended(write: AsyncConnection, answer: EndedAnswer) -> None:
            self.database.call_after_commit(write, partial(metrics.record_end, answer))

        self.completion_hooks.hooks.append(ended)
        if self.messages.histories is not None:
            self.messages.histories.outcomes = metrics.histories

    async def _drop_erased_threads(self, forgotten: ErasedIds) -> None:
        if self.messages.histories is not None:
            self.messages.histories.drop_chats(forgotten.chats)

    def update_local_queues(self) -> None:
        """Have the gateway's own workers answer for each model that no pull worker serves.

        Called when workers have come or gone.
        """
        pulled = self.sessions.models
        self._seen |= pulled
        served = set(self._served())
        configs = [config for name in served if (config := self.models.find_config(name)) is not None]
        configs += [config for config in self._seen.values() if config.model_id in served]
        self._push.set_queues(config.compat_hash for config in configs if config.compat_hash not in pulled)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises ConfigError: the database does not answer."""
        try:
            await migrate(self.database)
        except Exception as error:  # drivers raise what they like
            await self.database.aclose()
            raise ConfigError(f"chat.database: {type(error).__name__}: {error}") from error
        keys = [key.get_secret_value() for key in self.config.debug_api_keys]
        await self.workers.admit_workers("Debug API Key", keys)
        try:
            async with self.plugins.running(), self.answers.running(), self.sessions.running():
                works = [
                    self._push.answer_jobs,
                    self.webhook_service.deliverer.run,
                    self.database.watch_problems,
                ]
                works += [] if self._titler is None else [self._titler.make_titles]
                async with run_concurrently(*works):
                    self.update_local_queues()
                    yield
        finally:
            await self._scrubber.aclose()
            await self.database.aclose()


def open_database(config: ChatConfig, home: Path) -> ChatDatabase:
    """Open the database of `config`, or a file in `home`. Raises ConfigError."""
    home.mkdir(parents=True, exist_ok=True)
    given = config.database
    try:
        return ChatDatabase(f"sqlite:///{home / 'chats.db'}" if given is None else given.get_secret_value())
    except ValueError as error:
        raise ConfigError(f"chat.database: {error}") from None


def load_secrets(home: Path, config: ChatConfig) -> ServerSecrets:
    """Return the secrets of `config`, others from `home`, creating them there first. Raises ConfigError."""
    chosen = {name: secret.get_secret_value() for name, secret in config.secrets if secret is not None}
    if len(chosen) == len(ServerSecrets.__slots__):
        return ServerSecrets(**chosen)
    path = home / "chat-secrets.json"
    try:
        found, made = load_or_create_secrets(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"chat: {error}") from error
    if made:
        log.warning("chats: created new secrets, including the root token: %s", path)
    return replace(found, **chosen)
