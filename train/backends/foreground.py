"""A run from the command line: this process trains, or says what somebody else has to start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from certloop.agentrl.backend import RunState
from certloop.train.backends import make_spec, recipe_of
from certloop.train.config import RunConfig
from certloop.train.errors import BackendError


def run_to_end(config: RunConfig, out: Path, say: Callable[[str], None]) -> str:
    """The model's folder or name; for swift the script to start. Raises what the backend raises."""
    spec = make_spec(config)
    if config.backend == "local":
        from certloop.train.run import run

        return str(run(recipe_of(spec), out, say))
    if config.backend == "swift":
        from certloop.train.backends.swift import SCRIPT, SwiftBackend

        swift = SwiftBackend(out)
        run_id = swift.submit(spec)
        state = swift.status(run_id).state
        if state is RunState.DONE:
            return swift.fetch(run_id).where
        say(f"{run_id}: {state}; start the script where ms-swift is installed, then ask again")
        return str(out / run_id / SCRIPT)
    from certloop.train.backends.tinker import TinkerBackend

    tinker = TinkerBackend(out)
    run_id = tinker.submit(spec)
    status = tinker.wait(run_id)
    if status.error is not None:
        raise BackendError(status.error["message"])
    return tinker.fetch(run_id).where
