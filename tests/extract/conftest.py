"""One reader for all tests of this room: its models take a second to load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from certloop.extract import Extractor
from certloop.templates import Registry, load_types

sys.path.insert(0, str(Path(__file__).parent))  # test modules import `layout_lines` by name


@pytest.fixture(scope="session")
def registry() -> Registry:
    return load_types()


@pytest.fixture(scope="session")
def extractor() -> Iterator[Extractor]:
    with Extractor() as reader:
        yield reader
