"""The `chat` section: accounts, chats, and what answers in them may use."""

from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from radixway.core.config.base import ConfigSection, Network
from radixway.core.config.tenants import DEFAULT_TENANT


def _check_guarded_url(url: str) -> str:
    """Check that nothing in between can read or change calls to `url`. Raises ValueError."""
    if not is_guarded_url(url):
        raise ValueError("must be https://…, or http:// on this machine")
    return url


def is_guarded_url(url: str) -> bool:
    """Return whether what is sent to `url` is encrypted, or does not leave this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_local(host))


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


Url = Annotated[str, AfterValidator(_check_guarded_url)]
_LongSecret = Annotated[SecretStr, Field(min_length=16)]
_Given = Annotated[_LongSecret | None, BeforeValidator(_none_if_empty)]
_Word = Annotated[str, Field(min_length=1)]


class LoginConfig(ConfigSection):
    """Settings that every provider has."""

    client_id: _Word
    """The provider's name for this gateway."""
    tenant: _Word = DEFAULT_TENANT
    """Tenant of the provider's users."""


class OAuthLoginConfig(LoginConfig):
    """A provider that authenticates users on its own page."""

    client_secret: SecretStr
    """The provider's secret for this gateway."""
    authorize_url: Url
    """URL that browsers are sent to."""
    token_url: Url
    """URL that exchanges a code for a token."""
    user_url: Url
    """URL that names a token's user."""


class DiscordLoginConfig(OAuthLoginConfig):
    """Discord's addresses."""

    authorize_url: Url = "https://discord.com/oauth2/authorize"
    token_url: Url = "https://discord.com/api/oauth2/token"
    user_url: Url = "https://discord.com/api/users/@me"


class GithubLoginConfig(OAuthLoginConfig):
    """GitHub's addresses; GitHub Enterprise has others."""

    authorize_url: Url = "https://github.com/login/oauth/authorize"
    token_url: Url = "https://github.com/login/oauth/access_token"
    user_url: Url = "https://api.github.com/user"


class OidcLoginConfig(LoginConfig):
    """A provider of OpenID Connect, known by its issuer."""

    issuer: Url
    """Its discovery document is at `ISSUER/.well-known/openid-configuration`."""
    client_secret: SecretStr | None = None
    """None: a public client; PKCE alone."""
    scopes: tuple[_Word, ...] = ("openid", "profile")
    """Requested scopes."""
    required_claims: dict[str, str | bool] = Field(default={})
    """Claims that an id token must have, with these values; `{hd: example.org}` admits that domain alone."""
    admin_claim: _Word | None = None
    """The claim that makes administrators: with each login the role follows it."""
    admin_values: tuple[_Word, ...] = ()
    """One of them must be the claim's value, or among its values."""

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if "openid" not in self.scopes:
            raise ValueError("scopes: openid must be among them")
        if bool(self.admin_claim) != bool(self.admin_values):
            raise ValueError("admin_claim and admin_values go together")
        return self


class GoogleLoginConfig(OidcLoginConfig):
    """Google."""

    issuer: Url = "https://accounts.google.com"


class ChatLoginConfig(ConfigSection):
    """Providers with which users may log in; those not configured are not offered."""

    public_url: Url | None = None
    """URL of this gateway, as browsers reach it."""
    callback_root: Url | None = None
    """Where providers send users back, without their own name; by default PUBLIC_URL/auth/callback."""
    discord: DiscordLoginConfig | None = None
    github: GithubLoginConfig | None = None
    google: GoogleLoginConfig | None = None
    oidc: dict[Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")], OidcLoginConfig] = Field(
        default={}
    )
    """Others, by a name of your choice: `/auth/login/NAME`."""

    @model_validator(mode="after")
    def _check_callback(self) -> Self:
        taken = {"debug", "discord", "github", "google"} & set(self.oidc)
        if taken:
            raise ValueError(f"oidc: {', '.join(sorted(taken))} is another provider's name")
        some = self.discord or self.github or self.google or self.oidc
        if some and self.public_url is None and self.callback_root is None:
            raise ValueError("public_url is needed: providers send users back there")
        return self

    @property
    def callback_base_url(self) -> str:
        """The address to which providers send users back, without the provider's name."""
        return (self.callback_root or f"{(self.public_url or '').rstrip('/')}/auth/callback").rstrip("/")


class ChatSecretsConfig(ConfigSection):
    """Secrets that processes on several machines share; what is not given is made, in RADIXWAY_HOME."""

    auth_secret: _Given = None
    """Tokens are encrypted with what is derived from it and the salt."""
    auth_salt: Annotated[SecretStr | None, BeforeValidator(_none_if_empty)] = None
    """Salts what is made of `auth_secret`; at least 16 characters."""
    root_token: _Given = None
    """The administrator's."""


Level = Annotated[int, Field(ge=0, le=3)]


class ChatSafetyConfig(ConfigSection):
    """Questions are judged before they are answered, and made safe."""

    level: Level = 0
    """0: nothing is judged; 1: interventions matter; 2: cautions too; 3: every warning."""
    models: dict[str, Level] = Field(default={})
    """Levels of models that have one of their own, by name. No request can go below its model's."""
    url: str | None = Field(default=None, pattern=r"^https?://")
    """URL of a service that speaks the published `/safety`; without one the guard's classifiers judge."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long a question may be judged."""
    on_error: Literal["refuse", "allow"] = "refuse"
    """How to treat a question that no judge could read: end its answer with an error, or answer it."""
    failures: int = Field(default=3, ge=1)
    """Failures in a row after which the service is not called for `rest_s`; then one question tries it."""
    rest_s: float = Field(default=10.0, gt=0)
    """Seconds without calls; then one question tries it."""

    @property
    def is_on(self) -> bool:
        """True if anything is judged without being asked for."""
        return bool(self.level or any(self.models.values()))


BuiltinPlugin = Literal["gale_pleaser", "gale_roaster", "web_retriever", "calculator"]


class ChatPluginsConfig(ConfigSection):
    """Plugins that a user may choose for an answer."""

    builtin: tuple[BuiltinPlugin, ...] = ("gale_pleaser", "gale_roaster", "web_retriever", "calculator")
    """Built-in plugins offered at `/plugins/{name}/`; `web_retriever` fetches for any caller."""
    by_url: bool = True
    """Users may name plugins of others by the URL of their `ai-plugin.json`."""
    function_calling: tuple[str, ...] = ()
    """Models that call functions by themselves, `*` for anything; others are asked in text."""
    allowed_networks: tuple[Network, ...] = ()
    """Networks that plugins may be on beyond the public internet, such as `10.1.0.0/16`."""
    fetch_timeout_s: float = Field(default=10.0, gt=0)
    """Timeout of a page, a manifest or a plugin's call, redirects included."""
    tool_timeout_s: float = Field(default=30.0, gt=0)
    """Timeout of any tool call."""
    result_characters: int = Field(default=2048, ge=64)
    """Characters of a tool's result that the model gets."""
    page_characters: int = Field(default=1585, ge=64)
    """Characters of a page's text that `web_retriever` returns."""


class McpServerConfig(ConfigSection):
    """A server of the Model Context Protocol: a command that speaks it on stdin and stdout, or a URL."""

    command: str | None = Field(default=None, min_length=1)
    """A program to start, which speaks over stdio."""
    args: tuple[str, ...] = ()
    """Arguments of the command."""
    env: dict[str, SecretStr] = Field(default={})
    """Environment of the command, besides `PATH`, `HOME` and the like."""
    cwd: str | None = None
    """The directory in which it starts."""
    url: str | None = Field(default=None, pattern="^https?://")
    """URL of streamable HTTP."""
    headers: dict[str, SecretStr] = Field(default={})
    """Headers for the URL, such as `Authorization`."""
    description: str = ""
    """Description for models; by default the server's."""
    tools: tuple[str, ...] | None = None
    """Tools to offer; by default all."""
    timeout_s: float = Field(default=30.0, gt=0)
    """Timeout of its start and of each call."""

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
    """URL that events are sent to."""
    secret: SecretStr
    """`whsec_` and base64 of 24 to 64 bytes."""
    events: tuple[str, ...] = ()
    """`answer.completed` …; none: all."""


class ChatWebhooksConfig(ConfigSection):
    """Webhooks: those of users at `/v1/webhooks`, and those listed here."""

    to: tuple[ChatWebhookConfig, ...] = ()
    per_user: int = Field(default=10, ge=0)
    """0: users have none."""
    http: bool = False
    """Addresses of users may do without TLS."""
    allowed_networks: tuple[Network, ...] = ()
    """Networks that may be called although they are not public, such as `10.1.0.0/16`."""
    timeout_s: float = Field(default=15.0, gt=0, le=45)
    """Timeout of one attempt."""
    retries_s: tuple[Annotated[float, Field(gt=0)], ...] = (5, 300, 1800, 7200, 18_000, 36_000, 36_000)
    """Pauses between attempts; after the last one a delivery is given up."""
    kept_s: float = Field(default=7 * 86_400.0, gt=0)
    """How long what was given up can be looked up and tried again."""


_Name = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class ChatModelConfig(ConfigSection):
    """A model that pull workers serve."""

    name: str = Field(min_length=1)
    """Name that chats ask for."""
    model_id: str = Field(min_length=1)
    """Model as its workers name it."""
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
    """Characters of one message; a longer one is refused."""
    tokens_per_chat: int | None = Field(default=None, ge=1)
    """Tokens that a chat's prompts and answers may use in all; further answers are refused."""
    tokens_per_user: int | None = Field(default=None, ge=1)
    """Tokens that a user's prompts and answers may use in `tokens_per_user_s`; further answers are refused.
    """
    tokens_per_user_s: float = Field(default=86400.0, gt=0)
    """The time over which a user's tokens are counted."""


class ChatWorkersConfig(ConfigSection):
    """Pull workers: those that connect to fetch jobs."""

    ping_s: float = Field(default=3.0, gt=0)
    """Silence until a worker is pinged."""
    inactivity_timeout_s: float = Field(default=300.0, gt=0)
    """Silence until a worker counts as gone."""
    first_frame_s: float = Field(default=30.0, gt=0)
    """How long a worker may take to say what it serves."""
    answer_silence_s: float = Field(default=600.0, gt=0)
    """How long a worker may say nothing of a job that it has; then that is tried elsewhere, or ends."""
    unread_s: float = Field(default=30.0, gt=0)
    """How long a worker may leave what it is sent unread; then it counts as gone."""
    safety_level: int | None = Field(default=None, ge=0, le=9)
    """How strict their own safety is; by default as `chat.safety` is, and 0 for what was made safe here."""


class ChatConfig(ConfigSection):
    """Accounts, chats, messages and the jobs that answer them."""

    enabled: bool = True
    """Serve chats, where the packages are installed (radixway[chat])."""
    database: SecretStr | None = None
    """`sqlite:///FILE` or `postgresql://…`; by default `chats.db` in RADIXWAY_HOME."""
    redis: SecretStr | None = None
    """`redis://HOST:PORT`, Valkey or Redis: processes on one database hear each other's answers over it."""
    env_file: str | None = None
    """A file with the published service's keys, `POSTGRES_HOST` and so on; what stands here stands above."""
    plain_environment: bool = True
    """These keys count in the environment, too, above those of the file."""
    allow_debug_auth: bool = False
    """Anyone may log in under any name, without a password."""
    login: ChatLoginConfig = ChatLoginConfig()
    secrets: ChatSecretsConfig = ChatSecretsConfig()
    trusted_client_keys: tuple[SecretStr, ...] = ()
    """Keys of servers that act for their own users with the header `TrustedClient`."""
    debug_api_keys: tuple[SecretStr, ...] = ()
    """Keys of workers that fetch jobs, next to those of `PUT /admin/workers`."""
    models: tuple[ChatModelConfig, ...] = ()
    """Models of pull workers; those of the gateway's own workers are known."""
    published_models: bool = False
    """The published service's 25 models may be asked for, too."""
    limits: ChatLimitsConfig = ChatLimitsConfig()
    while_busy: Literal["reject", "interrupt", "enqueue"] = "interrupt"
    """What a further question does in a chat that is being answered."""
    titles: Literal["off", "first_words", "model"] = "first_words"
    """Titles of chats without one: none, their first words, or a model's after the first answer."""
    title_model: str | None = Field(default=None, min_length=1)
    """The model that makes titles; by default the one that answered."""
    waits_s: float = Field(default=60.0, gt=0)
    """How long an answer may wait for a worker."""
    lease_s: float = Field(default=30.0, gt=0)
    """How long a worker may be silent before its job is given to another."""
    attempts: int = Field(default=3, ge=1)
    """Workers that may try a job, one after the other, in all."""
    after_words: Literal["abort", "restart"] = "abort"
    """An answer whose worker is lost after its first token ends and keeps its text, or starts over."""
    workers: ChatWorkersConfig = ChatWorkersConfig()
    webhooks: ChatWebhooksConfig = ChatWebhooksConfig()
    safety: ChatSafetyConfig = ChatSafetyConfig()
    histories_mb: float = Field(default=64.0, ge=0)
    """Megabytes of recently read threads in memory; 0: none."""
    histories_kept_s: float = Field(default=1800.0, gt=0)
    """Seconds for which an unused thread is cached."""
    kept_s: float = Field(default=60.0, gt=0)
    """How long a finished answer's tokens can be listened to again."""
    ping_s: float = Field(default=15.0, gt=0)
    """Interval of pings to listeners."""
    pushed_at_once: int = Field(default=64, ge=1)
    """Answers that the gateway fetches from its own workers at a time."""
    plugins: ChatPluginsConfig = ChatPluginsConfig()
    mcp_servers: dict[_Name, McpServerConfig] = Field(default={})
    """By name; users choose them as the plugin `mcp:NAME`."""
