"""Migrations of the tables: one step per file in `versions/`, run by Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from radixway.chat.database import ChatDatabase

_LOCK = 0x72616469787761  # of PostgreSQL's advisory locks; anything that nobody else uses


async def migrate(
    database: ChatDatabase, revision: str = "head", folder: Path = Path(__file__).parent
) -> None:
    """Bring the tables up to `revision`; several processes may start at once.

    `folder`: where Alembic finds `env.py` and the steps; by default those of chats.

    Raises alembic.util.CommandError: the database was made by a later version.
    """
    async with database.write_transaction() as connection:
        if not database.is_sqlite:  # which lets one writer in anyhow
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        await connection.run_sync(_upgrade, revision, folder)


def _upgrade(connection: Connection, revision: str, folder: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
