"""``python -m certloop`` is the command line."""

from certloop.cli import main

if __name__ == "__main__":
    main()
