"""``python -m certloop`` and the installed script. It imports next to nothing itself, so that Ctrl-C is quiet from the start."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # what a shell shows for SIGINT


def main() -> None:
    """Run the command line."""
    try:
        from certloop.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
