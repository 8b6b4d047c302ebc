"""The general agent-RL core: it knows nothing about certificates and imports no other room."""
