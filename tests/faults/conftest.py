"""Fault tests of the service start it as the tests of ``tests/serve`` do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serve"))  # `live` by name
