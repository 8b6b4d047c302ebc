"""Alembic revisions of the service's tables; ``certloop.serve.db.migrate`` runs them. There is no ``env.py`` to configure."""
