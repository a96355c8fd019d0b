"""Alembic's way in: always with a connection that is open already."""

from alembic import context

from radixway.api.keys.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="access_alembic_version",  # the database may hold chats too
    render_as_batch=True,
    transactional_ddl=False,  # the caller's transaction is all there is
)
with context.begin_transaction():
    context.run_migrations()
