"""`radixway chat`: users of the chats and their keys, in the configured database; no gateway need run."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TypeVar

import typer
from typer import Argument, Option

from radixway.cli.options import ConfigFile, load_options
from radixway.cli.terminal import err, exit_on, exit_with_error, out
from radixway.core.config import DEFAULT_TENANT, ConfigError, radixway_home

if TYPE_CHECKING:
    from radixway.chat.accounts import UserAccounts
    from radixway.chat.api_keys import ApiKey, ApiKeyStore
    from radixway.chat.database import ChatDatabase


chat_app = typer.Typer(help="Users of the chats, and their keys.", no_args_is_help=True)
users_app = typer.Typer(help="Users of the chats.", no_args_is_help=True)
keys_app = typer.Typer(help="API keys: shown once, kept as hashes.", no_args_is_help=True)
chat_app.add_typer(users_app, name="users")
chat_app.add_typer(keys_app, name="keys")

AnswerT = TypeVar("AnswerT")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_DURATION_S = 100 * 365 * 86400
_User = Annotated[str, Argument(help="A user's id.", metavar="USER")]
_Key = Annotated[str, Argument(help="A key's id, as `keys list` shows it.", metavar="KEY")]
_Tenant = Annotated[str | None, Option(help="The tenant.")]


@chat_app.command("root-token")
def root_token(config: ConfigFile = None) -> None:
    """Print the administrator's token; make one if there is none."""
    settings = load_options(config)
    try:
        from radixway.chat.service import load_secrets
    except ImportError as error:
        exit_with_error(f"chats need radixway[chat]: {error}")
    with exit_on(ConfigError):
        out.print(load_secrets(radixway_home(), settings.chat).root_token)


@chat_app.command("export")
def export(
    user: Annotated[str, Option(help="A user's id.")],
    file: Annotated[
        Path, Option("--out", help="Written for its owner alone; - prints it.", metavar="FILE")
    ] = Path("-"),
    config: ConfigFile = None,
) -> None:
    """Write everything that is known of a user, as JSON lines."""
    _run_in_database(config, lambda database: _write_export(database, user, file))


@chat_app.command("scrub")
def scrub(config: ConfigFile = None) -> None:
    """Rewrite the database's files without deleted data. Writes are blocked meanwhile."""
    _run_in_database(config, _scrub_files)


@users_app.command("list")
def users_list(tenant: _Tenant = None, config: ConfigFile = None) -> None:
    """Show the newest thousand."""
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    names = ("name", "role", "tenant", "provider", "since")
    table = FittedTable(TableColumn("id", is_id=True), *map(TableColumn, names))
    for user in _run_with_accounts(config, lambda accounts: accounts.list_users(tenant=tenant)):
        since = _format_time(user.created_at)
        table.add_row(user.id, user.display_name, user.role, user.tenant, user.provider, since)
    table.print_to(out)


@users_app.command("create")
def users_create(
    name: Annotated[str, Argument(help="Unique within its tenant.")],
    tenant: Annotated[str, Option(help="Whose user it is.")] = DEFAULT_TENANT,
    config: ConfigFile = None,
) -> None:
    """Make a user who signs in with API keys alone, and print the id. An existing one is unchanged."""

    async def enroll(accounts: UserAccounts) -> str:
        from radixway.chat.accounts import HOUSE

        return (await accounts.enroll_user(tenant, HOUSE, name, name, new_id=str(uuid.uuid4()))).id

    out.print(_run_with_accounts(config, enroll))


@users_app.command("role")
def users_role(user: _User, role: Literal["user", "admin"], config: ConfigFile = None) -> None:
    """Say what a user may do from the next call on."""
    from radixway.chat.records import UserRole

    _run_with_accounts(config, lambda accounts: accounts.set_role(user, UserRole(role)))
    out.print(f"{user}: {role}")


@users_app.command("delete")
def users_delete(
    user: _User,
    with_chats: Annotated[bool, Option("--with-chats", help="Their chats go too.")] = False,
    config: ConfigFile = None,
) -> None:
    """End a user's access.

    Its tokens and keys are invalid from the next call on.
    """
    from radixway.chat.accounts import UserAccounts
    from radixway.chat.service import load_secrets
    from radixway.chat.webhooks.deliverer import WebhookService

    async def delete(database: ChatDatabase) -> None:
        chat = load_options(config).chat
        hooks = WebhookService(chat.webhooks, database, load_secrets(radixway_home(), chat), time.time)
        await UserAccounts(database, time.time, hooks.outbox).delete_user(user, with_chats=with_chats)

    _run_in_database(config, delete)
    out.print(f"deleted {user}")


@keys_app.command("list")
def keys_list(
    user: Annotated[str | None, Option(help="Only this user's, by id.")] = None,
    config: ConfigFile = None,
) -> None:
    """Show keys by their first characters."""
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    names = ("name", "begins", "scope", "tenant", "user", "client", "expires", "used")
    table = FittedTable(TableColumn("id", is_id=True), *map(TableColumn, names))
    for key in _run_with_keys(config, lambda keys: keys.list_keys(user_id=user)):
        table.add_row(
            *(key.id, key.name, key.shown, key.scope, key.tenant, key.user_id or "–", key.client or "–"),
            _format_time(key.expires_at, past="expired"),
            _format_time(key.used_at),
        )
    table.print_to(out)


@keys_app.command("create")
def keys_create(
    name: Annotated[str, Argument(help="What it is for.")],
    scope: Annotated[Literal["user", "admin", "worker", "trusted"], Option(help="What it may do.")],
    user: Annotated[
        str | None, Option(help="By the id that `chat users` shows; scope user needs one.")
    ] = None,
    tenant: Annotated[str, Option(help="Of a key without a user.")] = DEFAULT_TENANT,
    client: Annotated[str | None, Option(help="Scope trusted: speak for this client's users alone.")] = None,
    expires_in: Annotated[str | None, Option(help="As 90d, 12h; default: never.")] = None,
    config: ConfigFile = None,
) -> None:
    """Make a key and print it, this once."""
    from radixway.chat.api_keys import KeyScope

    lasts_s = None if expires_in is None else _parse_duration_s(expires_in, "--expires-in")
    _print_key(
        *_run_with_keys(
            config,
            lambda keys: keys.create_key(
                name, KeyScope(scope), user_id=user, tenant=tenant, client=client, lasts_s=lasts_s
            ),
        )
    )


@keys_app.command("rotate")
def keys_rotate(
    key: _Key,
    overlap: Annotated[str, Option(help="How long the old key still works, as 24h.")] = "0s",
    config: ConfigFile = None,
) -> None:
    """Make another key in its place and print it."""
    overlap_s = _parse_duration_s(overlap, "--overlap")
    _print_key(*_run_with_keys(config, lambda keys: keys.rotate_key(key, overlap_s=overlap_s)))


@keys_app.command("revoke")
def keys_revoke(key: _Key, config: ConfigFile = None) -> None:
    """Revoke a key: it is invalid from the next call on."""
    _run_with_keys(config, lambda keys: keys.revoke_key(key))
    out.print(f"revoked {key}")


async def _write_export(database: ChatDatabase, user_id: str, file: Path) -> None:
    """Write everything known of the user `user_id` to `file` (`-`: standard output).

    Raises ChatNotFoundError, and then writes nothing.
    """
    from radixway.chat.privacy import AccountExport

    lines = await AccountExport(database, time.time).export_user(user_id)
    with _open_output(file) as output:
        async for part in lines:
            output.write(part)
        output.flush()


async def _scrub_files(database: ChatDatabase) -> None:
    """Rewrite the files of `database`. Raises ValueError: another process uses them."""
    from radixway.chat.privacy import FileScrubber
    from radixway.core.component import CannotErase

    try:
        await FileScrubber(database, largest_bytes=sys.maxsize).force_scrub()
    except CannotErase as error:
        raise ValueError(str(error)) from error


def _open_output(file: Path) -> BinaryIO:
    if str(file) == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "wb")


def _print_key(key: ApiKey, text: str) -> None:
    out.print(text)
    until = "" if key.expires_at is None else f", until {_format_time(key.expires_at)}"
    err.print(f"{key.name}: {key.id}, scope {key.scope}{until}")


def _run_with_accounts(file: Path | None, work: Callable[[UserAccounts], Awaitable[AnswerT]]) -> AnswerT:
    def with_accounts(database: ChatDatabase) -> Awaitable[AnswerT]:
        from radixway.chat.accounts import UserAccounts

        return work(UserAccounts(database, time.time))

    return _run_in_database(file, with_accounts)


def _run_with_keys(file: Path | None, work: Callable[[ApiKeyStore], Awaitable[AnswerT]]) -> AnswerT:
    def with_keys(database: ChatDatabase) -> Awaitable[AnswerT]:
        from radixway.chat.api_keys import ApiKeyStore

        return work(ApiKeyStore(database, time.time))

    return _run_in_database(file, with_keys)


def _run_in_database(file: Path | None, work: Callable[[ChatDatabase], Awaitable[AnswerT]]) -> AnswerT:
    """Return what `work` finds or changes in the database configured by `file`; an error ends the command."""
    settings = load_options(file)
    try:
        from radixway.chat.errors import ChatError
        from radixway.chat.migrations import migrate
        from radixway.chat.service import open_database
    except ImportError as error:
        exit_with_error(f"chats need radixway[chat]: {error}")

    async def do() -> AnswerT:
        database = open_database(settings.chat, radixway_home())
        try:
            try:
                await migrate(database)
            except Exception as error:  # drivers raise what they like
                raise ConfigError(f"chat.database: {type(error).__name__}: {error}") from error
            return await work(database)
        finally:
            await database.aclose()

    with exit_on(ChatError, ConfigError, OSError, ValueError):
        return asyncio.run(do())


def _parse_duration_s(text: str, option: str) -> float:
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        exit_with_error(f"{option}: say how long as 30s, 15m, 12h or 90d, not {text!r}")
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > _MAX_DURATION_S:
        exit_with_error(f"{option}: at most {_MAX_DURATION_S // _UNITS['d']}d, not {text[:40]}")
    return float(seconds)


def _format_time(at: float | None, *, past: str = "") -> str:
    if at is None:
        return "–"
    try:
        shown = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # a key made before durations were bounded
        return "never"
    return f"{past} {shown}" if past and at <= time.time() else shown
