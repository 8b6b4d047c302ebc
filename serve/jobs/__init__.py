"""Durable jobs: the port that the service knows, and DBOS behind it."""
