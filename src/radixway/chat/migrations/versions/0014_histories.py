"""A version for each message that every change of it raises, whoever makes it: what is kept of it is known to
be old then."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0006"

_SQLITE = (
    """CREATE TRIGGER message_version AFTER UPDATE ON messages WHEN new.version = old.version BEGIN
        UPDATE messages SET version = old.version + 1 WHERE id = new.id;
    END""",
)
_POSTGRESQL = (
    """CREATE FUNCTION radixway_message_version() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.version := OLD.version + 1; RETURN NEW; END
    $$""",
    """CREATE TRIGGER message_version BEFORE UPDATE ON messages
        FOR EACH ROW EXECUTE FUNCTION radixway_message_version()""",
)


def upgrade() -> None:
    op.add_column("messages", sa.Column("version", sa.Integer, server_default=sa.text("0"), nullable=False))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _SQLITE if is_sqlite else _POSTGRESQL:
        op.get_bind().exec_driver_sql(statement)
