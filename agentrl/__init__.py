"""The general agent-RL core: it knows no domain and imports no other room."""
