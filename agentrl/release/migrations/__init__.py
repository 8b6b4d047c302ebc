"""Alembic revisions of the registry's tables; ``Registry.open`` runs them."""
