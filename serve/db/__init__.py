"""The service's own tables, in the same database as the store: what was accepted, what was read, who may do what, what waits."""
