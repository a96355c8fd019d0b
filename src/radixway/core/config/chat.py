"""The `chat.safety` section: how careful answers in chats are.

Plugins and MCP servers: what answers may use besides a model.

The `chat.webhooks` section: who is told of what happens in chats.

The `chat` section: chats that never get lost.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from radixway.core.config.base import ConfigSection
from radixway.core.config.chat_login import ChatLoginConfig, ChatSecretsConfig

Level = Annotated[int, Field(ge=0, le=3)]
"""0: nothing is judged; 1: interventions matter; 2: cautions, too; 3: every warning."""


class ChatSafetyConfig(ConfigSection):
    """Questions are judged before anybody answers them, and made safe."""

    level: Level = 0
    """0: nothing is judged; 1: interventions matter; 2: cautions too; 3: every warning."""
    models: dict[str, Level] = Field(default={})
    """Levels of models that have one of their own, by name. No request can go below its model's."""
    url: str | None = Field(default=None, pattern=r"^https?://")
    """Of a service that speaks the published `/safety`; without one the guard's classifiers judge."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long a question may be judged."""
    on_error: Literal["refuse", "allow"] = "refuse"
    """What becomes of a question that nobody could judge: its answer ends with an error, or is given."""
    failures: int = Field(default=3, ge=1)
    """Of the service in a row, until it is left alone for `rest_s`; then one question tries it."""
    rest_s: float = Field(default=10.0, gt=0)
    """For how long; then one question tries it."""

    @property
    def is_on(self) -> bool:
        """True if anything is judged without being asked for."""
        return bool(self.level or any(self.models.values()))


BuiltinPlugin = Literal["gale_pleaser", "gale_roaster", "web_retriever", "calculator"]


class ChatPluginsConfig(ConfigSection):
    """Plugins that a user may choose for an answer."""

    builtin: tuple[BuiltinPlugin, ...] = ("gale_pleaser", "gale_roaster", "web_retriever", "calculator")
    """Those of ours that are offered, at `/plugins/{name}/`; `web_retriever` fetches for anybody who asks."""
    by_url: bool = True
    """Users may name plugins of others by the URL of their `ai-plugin.json`."""
    function_calling: tuple[str, ...] = ()
    """Models that call functions by themselves, by name; `*` stands for anything. Others are asked in text
    (Thought, Action, Observation)."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that plugins may be on besides the public internet, such as `10.1.0.0/16`."""
    fetch_timeout_s: float = Field(default=10.0, gt=0)
    """For a page, a manifest or a call of a plugin, redirects included."""
    tool_timeout_s: float = Field(default=30.0, gt=0)
    """For one call of a tool, whatever it is."""
    result_characters: int = Field(default=2048, ge=64)
    """Of a tool's result, that the model is shown."""
    page_characters: int = Field(default=1585, ge=64)
    """Of a page's text, that `web_retriever` gives."""

    @field_validator("allowed_networks")
    @classmethod
    def _check_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for network in networks:
            ip_network(network)
        return networks


class McpServerConfig(ConfigSection):
    """A server of the Model Context Protocol: a command that speaks it on stdin and stdout, or a URL."""

    command: str | None = Field(default=None, min_length=1)
    """A program to start, which speaks over stdio."""
    args: tuple[str, ...] = ()
    """Arguments of the command."""
    env: dict[str, SecretStr] = Field(default={})
    """Of the command, besides `PATH`, `HOME` and the like."""
    cwd: str | None = None
    """The directory in which it starts."""
    url: str | None = Field(default=None, pattern="^https?://")
    """Of streamable HTTP."""
    headers: dict[str, SecretStr] = Field(default={})
    """To the URL, such as `Authorization`."""
    description: str = ""
    """What models are told of it; by default what the server says."""
    tools: tuple[str, ...] | None = None
    """Those of its tools that are offered; by default all."""
    timeout_s: float = Field(default=30.0, gt=0)
    """For its start, and for each call."""

    @model_validator(mode="after")
    def _check_command_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")
        return self


class ChatWebhookConfig(ConfigSection):
    """An address that is told of all users' events."""

    name: str = Field(min_length=1)
    """How logs and deliveries call it."""
    url: str = Field(min_length=1)
    """Where events are sent."""
    secret: SecretStr
    """`whsec_` and base64 of 24 to 64 bytes."""
    events: tuple[str, ...] = ()
    """`answer.completed` …; none: all."""


class ChatWebhooksConfig(ConfigSection):
    """Those of users at `/v1/webhooks`, and those named here."""

    to: tuple[ChatWebhookConfig, ...] = ()
    per_user: int = Field(default=10, ge=0)
    """0: users have none."""
    http: bool = False
    """Addresses of users may do without TLS."""
    allowed_networks: tuple[str, ...] = ()
    """Such as `10.1.0.0/16`: may be called although they are not public."""
    timeout_s: float = Field(default=15.0, gt=0, le=45)
    """Of one attempt."""
    retries_s: tuple[Annotated[float, Field(gt=0)], ...] = (5, 300, 1800, 7200, 18_000, 36_000, 36_000)
    """Between the attempts; after the last one a delivery is given up."""
    kept_s: float = Field(default=7 * 86_400.0, gt=0)
    """How long what was given up can be looked up and tried again."""

    @field_validator("allowed_networks")
    @classmethod
    def _check_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for network in given:
            ip_network(network)
        return given


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
    """Upper bounds on what users may store and send."""

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
