"""The HTTP API: routers, who may call them, and the one shape of every error."""
