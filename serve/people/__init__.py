"""Who may do what: roles, actors, tenants, API keys, users and their sessions."""
