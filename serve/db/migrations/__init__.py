"""Alembic revisions of the store's schema; ``certloop.agentrl.store.migrate`` runs them. There is no ``env.py`` to configure."""
