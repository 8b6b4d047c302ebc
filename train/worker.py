"""The process of a local run: ``python -m certloop.train.worker FOLDER`` trains the recipe that stands in FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from certloop.train.config import load_config
from certloop.train.errors import TrainError
from certloop.train.run import STATUS, run, write_json


def main(folder: Path) -> int:
    """0 when the run is done; 1 after a typed error, which stands in the run's status."""
    try:
        run(load_config(folder / "recipe.toml"), folder, lambda line: print(line, flush=True))  # noqa: T201 - the log is standard output
    except TrainError as error:
        write_json(folder / STATUS, {"state": "failed", "stage": _stage(folder), "error": error.to_json()})
        print(f"error[{error.code}]: {error.message}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _stage(folder: Path) -> str:
    import json

    try:
        return str(json.loads((folder / STATUS).read_text(encoding="utf-8")).get("stage", ""))
    except (OSError, ValueError):
        return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
