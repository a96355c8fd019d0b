"""`radixway chat`: users of the chats and their keys, in the configured database; no gateway need run."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from rich.console import Console

from radixway.cli.options import ConfigFile, load
from radixway.cli.terminal import fail, out
from radixway.config import DEFAULT_TENANT, ConfigError, radixway_home

if TYPE_CHECKING:
    from radixway.chat.database import Database
    from radixway.chat.keys import ApiKey

chat_app = typer.Typer(help="Users of the chats, and their keys.", no_args_is_help=True)
users_app = typer.Typer(help="Who chats.", no_args_is_help=True)
keys_app = typer.Typer(help="API keys: shown once, kept as hashes.", no_args_is_help=True)
chat_app.add_typer(users_app, name="users")
chat_app.add_typer(keys_app, name="keys")

AnswerT = TypeVar("AnswerT")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_User = Annotated[str, typer.Argument(help="A user's id.", metavar="USER")]
_Key = Annotated[str, typer.Argument(help="A key's id, as `keys list` shows it.", metavar="KEY")]
_Tenant = Annotated[str | None, typer.Option(help="Whose they are.")]


@chat_app.command("root-token")
def root_token(config: ConfigFile = None) -> None:
    """Print the administrator's token, made now where there is none."""
    settings = load(config)
    try:
        from radixway.chat.room import secrets_of

        out.print(secrets_of(radixway_home(), settings.chat).root_token, soft_wrap=True)
    except ImportError as error:
        fail(f"chats need radixway[chat]: {error}")
    except ConfigError as error:
        fail(str(error))


@chat_app.command("export")
def export(
    user: Annotated[str, typer.Option(help="A user's id.")],
    file: Annotated[
        Path, typer.Option("--out", help="Written for its owner alone; - prints it.", metavar="FILE")
    ] = Path("-"),
    config: ConfigFile = None,
) -> None:
    """Write everything that is known of a user, as JSON lines."""
    from radixway.cli.exporting import write_export

    _in_database(config, lambda database: write_export(database, user, file))


@chat_app.command("scrub")
def scrub(config: ConfigFile = None) -> None:
    """Write the database's files anew: nothing stays of what was deleted. Nobody can write meanwhile."""
    from radixway.cli.exporting import scrub_files

    _in_database(config, scrub_files)


@users_app.command("list")
def users_list(tenant: _Tenant = None, config: ConfigFile = None) -> None:
    """Show the newest thousand."""
    from radixway.chat.accounts import Accounts
    from radixway.telemetry.tables import Column, FittedTable

    names = ("name", "role", "tenant", "provider", "since")
    table = FittedTable(Column("id", is_id=True), *map(Column, names))
    for user in _in_database(config, lambda database: Accounts(database, time.time).all(tenant=tenant)):
        since = _moment(user.created_at)
        table.add_row(user.id, user.display_name, user.role, user.tenant, user.provider, since)
    table.print_to(out)


@users_app.command("create")
def users_create(
    name: Annotated[str, typer.Argument(help="Unique within its tenant.")],
    tenant: Annotated[str, typer.Option(help="Whose user it is.")] = DEFAULT_TENANT,
    config: ConfigFile = None,
) -> None:
    """Make a user who comes with API keys alone, and print the id. One that is there stays as it is."""
    from radixway.chat.accounts import HOUSE, Accounts

    async def enroll(database: Database) -> str:
        accounts = Accounts(database, time.time)
        return (await accounts.enroll(tenant, HOUSE, name, name, new_id=str(uuid.uuid4()))).id

    out.print(_in_database(config, enroll), soft_wrap=True)


@users_app.command("role")
def users_role(user: _User, role: Literal["user", "admin"], config: ConfigFile = None) -> None:
    """Say what a user may do from the next call on."""
    from radixway.chat.accounts import Accounts
    from radixway.chat.records import UserRole

    _in_database(config, lambda database: Accounts(database, time.time).give_role(user, UserRole(role)))
    out.print(f"{user}: {role}", soft_wrap=True)


@users_app.command("delete")
def users_delete(
    user: _User,
    with_chats: Annotated[bool, typer.Option("--with-chats", help="Their chats go too.")] = False,
    config: ConfigFile = None,
) -> None:
    """End a user's access: tokens and keys count for nothing from the next call on."""
    from radixway.chat.accounts import Accounts
    from radixway.chat.room import secrets_of
    from radixway.chat.webhooks.room import HookRoom

    async def delete(database: Database) -> None:
        chat = load(config).chat
        hooks = HookRoom(chat.webhooks, database, secrets_of(radixway_home(), chat), time.time)
        await Accounts(database, time.time, hooks.outbox).delete(user, with_chats=with_chats)

    _in_database(config, delete)
    out.print(f"deleted {user}", soft_wrap=True)


@keys_app.command("list")
def keys_list(
    user: Annotated[str | None, typer.Option(help="Only this user's, by id.")] = None,
    config: ConfigFile = None,
) -> None:
    """Show keys by how they begin; what follows is known to nobody but their holders."""
    from radixway.chat.keys import Keys
    from radixway.telemetry.tables import Column, FittedTable

    names = ("name", "begins", "scope", "tenant", "user", "client", "expires", "used")
    table = FittedTable(Column("id", is_id=True), *map(Column, names))
    for key in _in_database(config, lambda database: Keys(database, time.time).all(user_id=user)):
        table.add_row(
            *(key.id, key.name, key.shown, key.scope, key.tenant, key.user_id or "–", key.client or "–"),
            _moment(key.expires_at, past="expired"),
            _moment(key.used_at),
        )
    table.print_to(out)


@keys_app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[Literal["user", "admin", "worker", "trusted"], typer.Option(help="What it opens.")],
    user: Annotated[
        str | None, typer.Option(help="By the id that `chat users` shows; scope user needs one.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Of a key without a user.")] = DEFAULT_TENANT,
    client: Annotated[
        str | None, typer.Option(help="Scope trusted: speak for this client's users alone.")
    ] = None,
    expires_in: Annotated[str | None, typer.Option(help="As 90d, 12h; default: never.")] = None,
    config: ConfigFile = None,
) -> None:
    """Make a key and print it: it is told this once."""
    from radixway.chat.keys import Keys, KeyScope

    lasts_s = None if expires_in is None else _seconds(expires_in, "--expires-in")

    async def create(database: Database) -> tuple[ApiKey, str]:
        return await Keys(database, time.time).create(
            name, KeyScope(scope), user_id=user, tenant=tenant, client=client, lasts_s=lasts_s
        )

    _tell(*_in_database(config, create))


@keys_app.command("rotate")
def keys_rotate(
    key: _Key,
    overlap: Annotated[str, typer.Option(help="How long the old one serves still, as 24h.")] = "0s",
    config: ConfigFile = None,
) -> None:
    """Make another key in its place and print it."""
    from radixway.chat.keys import Keys

    overlap_s = _seconds(overlap, "--overlap")
    _tell(*_in_database(config, lambda database: Keys(database, time.time).rotate(key, overlap_s=overlap_s)))


@keys_app.command("revoke")
def keys_revoke(key: _Key, config: ConfigFile = None) -> None:
    """End a key: it opens nothing from the next call on."""
    from radixway.chat.keys import Keys

    _in_database(config, lambda database: Keys(database, time.time).revoke(key))
    out.print(f"revoked {key}", soft_wrap=True)


def _tell(key: ApiKey, text: str) -> None:
    out.print(text, soft_wrap=True)
    until = "" if key.expires_at is None else f", until {_moment(key.expires_at)}"
    Console(stderr=True, highlight=False, markup=False).print(
        f"{key.name}: {key.id}, scope {key.scope}{until}", soft_wrap=True
    )


def _in_database(file: Path | None, work: Callable[[Database], Awaitable[AnswerT]]) -> AnswerT:
    """What `work` finds or changes there. Whatever stands in its way ends the command."""
    settings = load(file)
    try:
        from radixway.chat.errors import ChatError
        from radixway.chat.migrations import migrate
        from radixway.chat.room import database_of
    except ImportError as error:
        fail(f"chats need radixway[chat]: {error}")

    async def do() -> AnswerT:
        database = database_of(settings.chat, radixway_home())
        try:
            try:
                await migrate(database)
            except Exception as error:  # drivers raise what they like
                raise ConfigError(f"chat.database: {type(error).__name__}: {error}") from error
            return await work(database)
        finally:
            await database.aclose()

    try:
        return asyncio.run(do())
    except (ChatError, ConfigError, OSError, ValueError) as error:
        fail(str(error))


def _seconds(text: str, option: str) -> float:
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        fail(f"{option}: say how long as 30s, 15m, 12h or 90d, not {text!r}")
    return float(int(match[1]) * _UNITS[match[2]])


def _moment(at: float | None, *, past: str = "") -> str:
    if at is None:
        return "–"
    told = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{past} {told}" if past and at <= time.time() else told
