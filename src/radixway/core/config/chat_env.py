"""The keys of the published service's `.env` files, as keys of our configuration.

They are read from the file `chat.env_file` and, above it, from the environment; all that is configured in
our own way stands above both. A line is `KEY=value` or, as in the published overview, `KEY: value  # why`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from radixway.core.config.base import ConfigError

_LINE = re.compile(
    r"""\s*(?:export\s+)?([A-Za-z_]\w*)\s*[:=]\s*(?:"([^"]*)"|'([^']*)'|([^#]*?))\s*(?:\#.*)?"""
)


@dataclass(frozen=True, slots=True)
class EnvValue:
    """A value, and where it stands."""

    text: str
    place: str


def _split_keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def _parse_safety_level(text: str) -> int:
    """Return the safety level if safety is on."""
    if text.strip().lower() in ("true", "1", "yes", "on"):
        return 2
    if text.strip().lower() in ("false", "0", "no", "off", ""):
        return 0
    raise ValueError("true or false")


def _parse_flag(text: str) -> bool:
    return _parse_safety_level(text) > 0


_PROVIDERS = ("discord", "github", "google")
_MEANT: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "PORT": (("gateway", "port"), int),
    "DEBUG_API_KEYS": (("chat", "debug_api_keys"), _split_keys),
    "TRUSTED_CLIENT_KEYS": (("chat", "trusted_client_keys"), _split_keys),
    "ALLOW_DEBUG_AUTH": (("chat", "allow_debug_auth"), _parse_flag),
    "API_ROOT": (("chat", "login", "public_url"), str),
    "AUTH_CALLBACK_ROOT": (("chat", "login", "callback_root"), str),
    "AUTH_SECRET": (("chat", "secrets", "auth_secret"), str),
    "AUTH_SALT": (("chat", "secrets", "auth_salt"), str),
    "ROOT_TOKEN": (("chat", "secrets", "root_token"), str),
    "RATE_LIMIT_MESSAGES_USER_TIMES": (("chat", "limits", "messages_per_user"), int),
    "RATE_LIMIT_MESSAGES_USER_SECONDS": (("chat", "limits", "per_s"), float),
    "ENABLE_SAFETY": (("chat", "safety", "level"), _parse_safety_level),
    "SAFETY_SERVICE_URL": (("chat", "safety", "url"), str),
    "WORKER_INACTIVITY_TIMEOUT": (("chat", "workers", "inactivity_timeout_s"), float),
}


def convert_published_keys(chat: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    """Convert these keys, below the section `chat` as given, to a tree of ours. Raises ConfigError."""
    own = chat if isinstance(chat, Mapping) else {}
    file = own.get("env_file")
    given = {} if not isinstance(file, str | Path) else read_env_file(Path(file))
    if own.get("plain_environment", True) is not False:
        given |= {name: EnvValue(text, f"environment: {name}") for name, text in environment.items()}
    tree: dict[str, Any] = {}
    for name, (path, meant) in _MEANT.items():
        if name in given:
            _set_path(tree, path, _parse_value(given[name], name, meant))
    for provider in _PROVIDERS:
        names = {part: f"AUTH_{provider.upper()}_{part.upper()}" for part in ("client_id", "client_secret")}
        if names["client_id"] in given and given[names["client_id"]].text:
            for part, name in names.items():
                if name in given:
                    _set_path(tree, ("chat", "login", provider, part), given[name].text)
    if "POSTGRES_HOST" in given:
        _set_path(tree, ("chat", "database"), _database_url(given))
    if "REDIS_HOST" in given:
        _set_path(tree, ("chat", "redis"), _redis_url(given))
    return tree


def read_env_file(path: Path) -> dict[str, EnvValue]:
    """Read the keys of the file at `path`. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat.env_file: {path}: {error}") from error
    found: dict[str, EnvValue] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"{path}:{number}: neither KEY=value nor KEY: value")
        name, *values = match.groups()
        text = next((value for value in values if value is not None), "")
        found[name] = EnvValue(text, f"{path}:{number}: {name}")
    return found


def _database_url(given: Mapping[str, EnvValue]) -> str:
    settings = {"USER": "postgres", "PASSWORD": "postgres", "PORT": "5432", "DB": "postgres"}
    for key in settings:
        if f"POSTGRES_{key}" in given:
            settings[key] = given[f"POSTGRES_{key}"].text
    if "POSTGRES_PORT" in given:
        _parse_value(given["POSTGRES_PORT"], "POSTGRES_PORT", int)
    user, password, name = (quote(settings[key], safe="") for key in ("USER", "PASSWORD", "DB"))
    return f"postgresql://{user}:{password}@{given['POSTGRES_HOST'].text}:{settings['PORT']}/{name}"


def _redis_url(given: Mapping[str, EnvValue]) -> str:
    port = given.get("REDIS_PORT", EnvValue("6379", ""))
    return f"redis://{given['REDIS_HOST'].text}:{_parse_value(port, 'REDIS_PORT', int)}"


def _parse_value(given: EnvValue, name: str, meant: Callable[[str], Any]) -> Any:
    try:
        return meant(given.text)
    except ValueError:
        wanted = "true or false" if meant is _parse_safety_level else "a number"
        raise ConfigError(f"{given.place}: {name} must be {wanted}, not {given.text!r}") from None


def _set_path(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *above, last = path
    for key in above:
        tree = tree.setdefault(key, {})
    tree[last] = value
