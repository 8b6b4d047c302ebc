"""Webhooks as Standard Webhooks has them: an outbox in the database, signed deliveries, and targets that are checked."""
