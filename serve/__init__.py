"""Serving: the HTTP API, durable jobs, tenants and roles, review and feedback, webhooks.

Importing this package loads no FastAPI, no DBOS and no engine: modules import them when they are used.
"""
