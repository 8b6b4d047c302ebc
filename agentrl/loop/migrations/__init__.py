"""Alembic revisions of the loop's tables; ``Runs.open`` runs them."""
