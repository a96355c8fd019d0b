"""The `chat` section: chats that never get lost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from radixway.config.base import ConfigSection
from radixway.config.chat_login import ChatLoginConfig, ChatSecretsConfig
from radixway.config.chat_plugins import ChatPluginsConfig, McpServerConfig
from radixway.config.chat_safety import ChatSafetyConfig
from radixway.config.chat_webhooks import ChatWebhooksConfig

_Name = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class ChatModelConfig(ConfigSection):
    """A model that pull workers serve."""

    name: str = Field(min_length=1)
    """What chats ask for."""
    model_id: str = Field(min_length=1)
    """What its workers serve, as they name it."""
    max_input_length: int = Field(ge=1)
    """Tokens of a prompt; longer threads lose their oldest turns."""
    max_total_length: int = Field(ge=2)
    """Tokens of prompt and answer together."""
    quantized: bool = False
    """Its workers run it quantized: part of what tells their queue."""


class ChatLimitsConfig(ConfigSection):
    """How much is too much."""

    messages_per_user: int = Field(default=60, ge=1)
    """Answers that a user may ask for in `per_s`."""
    per_s: float = Field(default=60.0, gt=0)
    """The time in which they may ask for so many."""
    at_once: int = Field(default=3, ge=1)
    """Answers that a user may have under way."""
    queue: int | None = Field(default=None, ge=1)
    """Jobs that may wait in one queue."""
    messages_per_chat: int | None = Field(default=None, ge=1)
    """Messages that a chat may have."""
    message_characters: int | None = Field(default=None, ge=1)
    """Of one message; a longer one is refused."""
    tokens_per_chat: int | None = Field(default=None, ge=1)
    """That its prompts and answers may use in all; further answers are refused."""
    tokens_per_user: int | None = Field(default=None, ge=1)
    """That a user's prompts and answers may use in `tokens_per_user_s`; further answers are refused."""
    tokens_per_user_s: float = Field(default=86400.0, gt=0)
    """The time over which a user's tokens are counted."""


class ChatWorkersConfig(ConfigSection):
    """Pull workers: those that connect to fetch jobs."""

    ping_s: float = Field(default=3.0, gt=0)
    """Of silence, until a worker is asked for a sign of life."""
    inactivity_timeout_s: float = Field(default=300.0, gt=0)
    """Of silence, until a worker counts as gone."""
    first_frame_s: float = Field(default=30.0, gt=0)
    """How long a worker may take to say what it serves."""
    answer_silence_s: float = Field(default=600.0, gt=0)
    """How long a worker may say nothing of a job that it has; then that is tried elsewhere, or ends."""
    unread_s: float = Field(default=30.0, gt=0)
    """How long a worker may leave what it is sent unread; then it counts as gone."""
    safety_level: int | None = Field(default=None, ge=0, le=9)
    """How strict their own safety is to be; by default as strict as `chat.safety` is with the question, and 0
    where that was made safe here."""


class ChatConfig(ConfigSection):
    """Accounts, chats, messages and the jobs that answer them."""

    enabled: bool = True
    """Where the packages are installed (radixway[chat])."""
    database: SecretStr | None = None
    """`sqlite:///FILE` or `postgresql://…`; by default `chats.db` in RADIXWAY_HOME."""
    redis: SecretStr | None = None
    """`redis://HOST:PORT`, Valkey or Redis: processes on one database hear each other's answers over it."""
    env_file: str | None = None
    """A file with the published service's keys, `POSTGRES_HOST` and so on; what stands here stands above."""
    plain_environment: bool = True
    """These keys count in the environment, too, above those of the file."""
    allow_debug_auth: bool = False
    """Anybody may log in as anybody by a name alone."""
    login: ChatLoginConfig = ChatLoginConfig()
    secrets: ChatSecretsConfig = ChatSecretsConfig()
    trusted_client_keys: tuple[SecretStr, ...] = ()
    """Of servers that speak for their own users, by the header `TrustedClient`."""
    debug_api_keys: tuple[SecretStr, ...] = ()
    """Of workers that fetch jobs, next to those let in by `PUT /admin/workers`."""
    models: tuple[ChatModelConfig, ...] = ()
    """Of pull workers; what the gateway's own workers serve is known without."""
    published_models: bool = False
    """The published service's 25 models may be asked for, too."""
    limits: ChatLimitsConfig = ChatLimitsConfig()
    while_busy: Literal["reject", "interrupt", "enqueue"] = "interrupt"
    """What becomes of a further question in a chat that is being answered."""
    titles: Literal["off", "first_words", "model"] = "first_words"
    """Of chats that nobody has named: none, their first words, or the model's after the first answer."""
    title_model: str | None = Field(default=None, min_length=1)
    """That makes them; by default the one that gave the answer."""
    waits_s: float = Field(default=60.0, gt=0)
    """How long an answer may wait for a worker."""
    lease_s: float = Field(default=30.0, gt=0)
    """How long a worker may be silent before its job is given to another."""
    attempts: int = Field(default=3, ge=1)
    """Workers that may try a job, one after the other, in all."""
    after_words: Literal["abort", "restart"] = "abort"
    """An answer whose worker is lost amid its words ends there and keeps them, or begins anew."""
    workers: ChatWorkersConfig = ChatWorkersConfig()
    webhooks: ChatWebhooksConfig = ChatWebhooksConfig()
    safety: ChatSafetyConfig = ChatSafetyConfig()
    histories_mb: float = Field(default=64.0, ge=0)
    """Of threads that were read not long ago, in memory; 0: none."""
    histories_kept_s: float = Field(default=1800.0, gt=0)
    """How long one is kept that nobody goes on with."""
    kept_s: float = Field(default=60.0, gt=0)
    """How long a finished answer's tokens can be listened to again."""
    ping_s: float = Field(default=15.0, gt=0)
    """Between signs of life to listeners."""
    pushed_at_once: int = Field(default=64, ge=1)
    """Answers that the gateway fetches from its own workers at a time."""
    plugins: ChatPluginsConfig = ChatPluginsConfig()
    mcp_servers: dict[_Name, McpServerConfig] = Field(default={})
    """By name; users choose them as the plugin `mcp:NAME`."""
