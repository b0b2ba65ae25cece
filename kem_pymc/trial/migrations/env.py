"""What Alembic runs: migrations in the transaction of a connection that it is given."""

from alembic import context

from kem_pymc.trial.schema import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables,
    transactional_ddl=True,  # in SQLite, too, as transactions are begun by hand
)
context.run_migrations()
