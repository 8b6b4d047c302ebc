"""Alembic revisions of the memory's table; ``Memory.open`` runs them."""
